/** The parts of a conversation that an empty session does not show: the messages, and the cards below them. */
export { ApprovalCard } from "./ApprovalCard";
export { Jobs } from "./Jobs";
export { PlanCard } from "./PlanCard";
export { QuestionCard } from "./QuestionCard";
export { RowList } from "./RowList";
export { TaskList } from "./TaskList";
export { UploadDialog } from "./Upload";
export { Watching } from "./Watching";
