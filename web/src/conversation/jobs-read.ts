/** Time at which readings of background jobs ended, by call; see `SessionView.jobsRead`. */
import { createContext } from "react";

export const JobsRead = createContext<ReadonlyMap<string, number>>(new Map());
