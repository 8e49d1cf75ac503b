/** What the page asks of the server beside a session's messages. */
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
  /** Whether a person wants it at the top. */
  pinned?: boolean;
  /** What was found in it, where a search found more than its title. */
  excerpt?: string;
  /** What it does now, where it is live on this server. */
  state?: SessionState;
}

/** A host that is known by a name. */
export interface HostRow {
  name: string;
  description: string;
}

/** Whose page this is, and what it may do. */
export interface Me {
  name: string;
  operate: boolean;
  decide: boolean;
}

/** A link for another browser. */
export interface PageLink {
  /** Below the address of the server. */
  path: string;
  /** Milliseconds since 1970-01-01 UTC. */
  expires: number;
}

/** What a new session is to be like; what is left out is as the server's settings say. */
export interface CreateSessionRequest {
  host?: string;
  model?: ModelRef;
  approve?: ApprovalMode;
  profile?: string;
  root?: string;
}

const SESSIONS = "/api/agent/sessions";
/** The most sessions of one list. */
const LIST_MAX = 1000;
/** How long a request may take to be answered. */
const ANSWER_MS = 20_000;

export function sessionPath(id: SessionId, rest = ""): string {
  return `${SESSIONS}/${encodeURIComponent(id)}${rest}`;
}

/** Asks; a file is sent as it is, any other body as JSON. Anything but a success is thrown as a `RequestError`. */
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

/** The sessions, the last changed first; those in which all words of the search are found. */
export async function listSessions(search = ""): Promise<SessionRow[]> {
  const wanted = search.trim() ? `&search=${encodeURIComponent(search.trim())}` : "";
  const said = await json<{ sessions: SessionRow[] }>(
    "Cannot list sessions",
    `${SESSIONS}?limit=${LIST_MAX}${wanted}`,
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

/** How a session works now, as the answer to `hello` tells it. */
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

/** The whole output of a call. */
export function artifactPath(id: SessionId, name: string): string {
  return sessionPath(id, `/artefacts/${encodeURIComponent(name)}`);
}

export type { RequestError };
