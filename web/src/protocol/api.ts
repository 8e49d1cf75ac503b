/** Requests to the server other than a session's messages. */
import type {
  ApprovalMode,
  ModelRef,
  PromptImage,
  ServerMessage,
  SessionId,
  SessionState,
  Skill,
} from "../wire";
import { errorFromResponse, noResponse, type RequestError } from "./request-error";

/** One row of the list of sessions. */
export interface SessionRow {
  sessionId: SessionId;
  title: string;
  /** Milliseconds since 1970-01-01 UTC. */
  created: number;
  changed: number;
  lastSeq: number;
  host: string;
  root: string;
  /** True if the session is pinned. */
  pinned?: boolean;
  /** Matching text, if the search matched more than the title. */
  excerpt?: string;
  /** Current state, if the session is open on this server. */
  state?: SessionState;
}

/** A named host. */
export interface HostRow {
  name: string;
  description: string;
  /** Mode of a session on this host for which none is chosen. */
  approve?: ApprovalMode;
}

/** The server's machine, and the properties of a session for which nothing is chosen. */
export interface ServerInfo {
  machine: string;
  host: string;
  root: string;
  model: ModelRef;
  approve: ApprovalMode;
}

/** Identity and permissions of the user. */
export interface Me {
  name: string;
  operate: boolean;
  decide: boolean;
  server?: ServerInfo;
}

/** A link for another browser. */
export interface PageLink {
  /** Path on the server. */
  path: string;
  /** Milliseconds since 1970-01-01 UTC. */
  expires: number;
}

/** Settings of a new session; omitted ones are the server's defaults. */
export interface CreateSessionRequest {
  host?: string;
  model?: ModelRef;
  approve?: ApprovalMode;
  profile?: string;
  root?: string;
}

const SESSIONS = "/api/agent/sessions";
/** Maximum sessions of one list. */
const LIST_MAX = 1000;
/** Timeout of a request, in milliseconds. */
const ANSWER_MS = 20_000;

export function sessionPath(id: SessionId, rest = ""): string {
  return `${SESSIONS}/${encodeURIComponent(id)}${rest}`;
}

/** Sends a request; a file is sent as is, any other body as JSON. Throws a `RequestError` unless it succeeds. */
export async function request(
  what: string,
  method: string,
  path: string,
  body?: unknown,
  patience = ANSWER_MS,
) {
  const where = `${method} ${path}`;
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      credentials: "same-origin",
      headers:
        body === undefined ? {} : { "content-type": body instanceof File ? body.type : "application/json" },
      body: body === undefined || body instanceof File ? body : JSON.stringify(body),
      signal: AbortSignal.timeout(patience),
    });
  } catch {
    throw noResponse(what, where);
  }
  if (!response.ok) throw await errorFromResponse(what, where, response);
  return response;
}

async function json<T>(what: string, path: string): Promise<T> {
  return (await (await request(what, "GET", path)).json()) as T;
}

/** Returns the sessions that contain all words of the search, most recently changed first. */
export async function listSessions(search = "", limit = LIST_MAX): Promise<SessionRow[]> {
  const wanted = search.trim() ? `&search=${encodeURIComponent(search.trim())}` : "";
  const said = await json<{ sessions: SessionRow[] }>(
    "Cannot list sessions",
    `${SESSIONS}?limit=${limit}${wanted}`,
  );
  return said.sessions;
}

export async function labelSession(
  id: SessionId,
  label: { title?: string; pinned?: boolean },
): Promise<void> {
  await request("Cannot change the session", "POST", sessionPath(id, "/label"), label);
}

export async function fetchMe(): Promise<Me> {
  return await json<Me>("Cannot read the permissions", "/api/me");
}

export async function createLink(access: "same" | "read"): Promise<PageLink> {
  const response = await request("Cannot create the link", "POST", "/api/links", { access });
  return (await response.json()) as PageLink;
}

export async function createSession(wish: CreateSessionRequest): Promise<SessionId> {
  const response = await request("Cannot create the session", "POST", SESSIONS, wish, 60_000);
  return ((await response.json()) as { sessionId: SessionId }).sessionId;
}

/** Stores an image for a prompt of the session. */
export async function storeImage(id: SessionId, image: File): Promise<PromptImage> {
  const path = sessionPath(id, `/images?name=${encodeURIComponent(image.name)}`);
  const response = await request("Cannot send the image", "POST", path, image, 60_000);
  return (await response.json()) as PromptImage;
}

export async function deleteSession(id: SessionId): Promise<void> {
  await request("Cannot delete the session", "DELETE", sessionPath(id));
}

/** Returns the current configuration of a session, as in the answer to `hello`. */
export async function fetchGreeting(id: SessionId): Promise<ServerMessage> {
  const said = await json<Record<string, unknown>>("Cannot open the session", sessionPath(id));
  return { ...said, type: "session.created", seq: undefined } as unknown as ServerMessage;
}

export async function listHosts(): Promise<HostRow[]> {
  return (await json<{ hosts: HostRow[] }>("Cannot list hosts", "/api/hosts")).hosts;
}

export async function listModels(): Promise<ModelRef[]> {
  return (await json<{ models: ModelRef[] }>("Cannot list models", "/api/models")).models;
}

/** Skills and custom commands that a prompt of a session can name. */
export async function listSkills(id: SessionId): Promise<Skill[]> {
  return (await json<{ skills: Skill[] }>("Cannot list the skills", sessionPath(id, "/skills"))).skills;
}

/** Returns the path of a call's full output. */
export function artifactPath(id: SessionId, name: string): string {
  return sessionPath(id, `/artefacts/${encodeURIComponent(name)}`);
}

export type { RequestError };
