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

/** Returns a name as the subject of a sentence: `you` becomes `You`. */
export function asSubject(name: string): string {
  return name === "you" ? "You" : name;
}

/**
 * Returns a user's name, or "you". A user who only watches has the name of the user who shared the page, but does
 * nothing under that name.
 */
export function useName(): (name: string) => string {
  const me = useContext(MeContext);
  const own = me && (me.operate || me.decide) ? me.name : undefined;
  return (name) => (name === own ? "you" : neutralizeLine(name));
}

/**
 * Returns the name of the server's machine for `hostLabel`; undefined until the server has told it. An import of
 * `hostLabel` here would split the page's script.
 */
export function useMachine(): string | undefined {
  return useContext(MeContext)?.server?.machine;
}
