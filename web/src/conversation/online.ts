import { createContext } from "react";

/** False while the page is not connected: what it shows of running work is then its last known state. */
export const Online = createContext(true);
