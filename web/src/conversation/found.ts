/** The hit of the search that is shown; a part of a row that is folded opens for it. */
import { createContext, useCallback, useContext, useLayoutEffect, useState } from "react";
import type { Part } from "./find-text";

/** The hit that is shown, or `none` if the search has no hits; undefined while no search is open. */
export const Found = createContext<{ row: string; part: Part } | "none" | undefined>(undefined);

/**
 * Returns true if a part of a row is unfolded, and its setter. A part that the search unfolded is folded again when
 * the search shows another hit, but not when it is closed, because the user may be reading there.
 */
export function useUnfolded(row: string, part: Part): [boolean, (unfolded: boolean) => void] {
  const found = useContext(Found);
  const isFound = found !== undefined && found !== "none" && found.row === row && found.part === part;
  const isSearching = found !== undefined;
  const [by, setBy] = useState<"user" | "search">();
  useLayoutEffect(() => {
    if (isFound) setBy((before) => before ?? "search");
    else if (isSearching) setBy((before) => (before === "search" ? undefined : before));
  }, [isFound, isSearching]);
  const set = useCallback((unfolded: boolean) => {
    // The element of the part reports changes of the search, too.
    setBy((before) => ((before !== undefined) === unfolded ? before : unfolded ? "user" : undefined));
  }, []);
  return [by !== undefined, set];
}
