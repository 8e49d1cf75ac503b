/** The parts of a session that its first view seldom needs: messages, the cards below them, the table of hosts. */
export { HostTable } from "../app/HostTable";
export { completions, parseCommand, unknownCommand } from "../state/commands";
export { ActivityLine } from "./ActivityLine";
export { Announcer } from "./Announcer";
export { ApprovalCard } from "./ApprovalCard";
export { Jobs } from "./Jobs";
export { PlanCard } from "./PlanCard";
export { QuestionCard } from "./QuestionCard";
export { RowList } from "./RowList";
export { TaskList } from "./TaskList";
export { UploadDialog } from "./Upload";
export { Watching } from "./Watching";
