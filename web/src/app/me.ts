/** Whose page this is; nothing until the server has told. */
import { createContext, useContext, useEffect, useState } from "react";
import { fetchMe, type Me } from "../protocol/api";
import { neutralizeLine } from "../text/neutralize";

export const MeContext = createContext<Me | undefined>(undefined);

/** Asks once. Without an answer the page offers what the server may refuse. */
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

/** A person's name, or "you". */
export function useName(): (name: string) => string {
  const me = useContext(MeContext);
  return (name) => (name === me?.name ? "you" : neutralizeLine(name));
}
