/** Identity and permissions of the user; undefined until the server answers. */
import { createContext, useContext, useEffect, useState } from "react";
import { fetchMe, type Me } from "../protocol/api";
import { neutralizeLine } from "../text/neutralize";

export const MeContext = createContext<Me | undefined>(undefined);

/** Fetches the permissions once. Without an answer, the page offers actions that the server may refuse. */
export function useFetchedMe(): Me | undefined {
  const [me, setMe] = useState<Me>();
  useEffect(() => {
    fetchMe().then(setMe, () => undefined);
  }, []);
  return me;
}

/** "You are", or "web is". */
export function isOrAre(name: string): string {
  return name === "you" ? "You are" : `${name} is`;
}

/** Returns a user's name, or "you". */
export function useName(): (name: string) => string {
  const me = useContext(MeContext);
  return (name) => (name === me?.name ? "you" : neutralizeLine(name));
}
