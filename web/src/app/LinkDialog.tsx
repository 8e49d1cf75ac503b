/** One-time link for another browser. */
import { useEffect, useMemo, useState } from "react";
import { encode } from "uqr";
import { createLink, type PageLink } from "../protocol/api";
import { RequestError } from "../protocol/request-error";
import { CopyButton } from "../text/CopyButton";
import { neutralizeLine } from "../text/neutralize";
import { Dialog } from "./Dialog";

interface Props {
  access: "same" | "read";
  /** Location to open in the other browser: `#/s/ID`, or empty. */
  hash: string;
  close(): void;
}

export function LinkDialog({ access, hash, close }: Props) {
  const [link, setLink] = useState<PageLink>();
  const [problem, setProblem] = useState<RequestError>();
  useEffect(() => {
    let here = true;
    createLink(access).then(
      (made) => here && setLink(made),
      (error: unknown) => here && error instanceof RequestError && setProblem(error),
    );
    return () => {
      here = false;
    };
  }, [access]);
  const address = link && `${location.origin}${link.path}${hash}`;
  return (
    <Dialog title={access === "same" ? "Link a device" : "Share read-only"} close={close}>
      {problem && (
        <div className="trouble" role="alert">
          <div>
            <strong>{problem.what}:</strong> {neutralizeLine(problem.why)}
            {problem.hint && <p>{problem.hint}</p>}
          </div>
        </div>
      )}
      {address && link && (
        <div className="code-picture">
          <QrCode text={address} />
          <p>
            {access === "same"
              ? "Scan the code with the camera of the other device. It will be signed in as you."
              : "Whoever opens this link first can watch all sessions on this server, but not change anything."}
          </p>
          <p className="meta">
            Works once, until{" "}
            {new Date(link.expires).toLocaleString([], { dateStyle: "medium", timeStyle: "short" })}. Do not
            send it through an app that opens links to preview them.
          </p>
          {isLoopback(location.hostname) && (
            <p className="warning">
              This page is open at {location.hostname}, which other devices cannot reach. Open it at an
              address they can reach, then create a new code.
            </p>
          )}
          <div className="link-line">
            <input
              className="field"
              readOnly
              aria-label="Link"
              value={address}
              onFocus={(event) => event.target.select()}
            />
            <CopyButton text={address} label="Copy link" />
          </div>
        </div>
      )}
      {!address && !problem && <p className="empty">Creating the link…</p>}
    </Dialog>
  );
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "[::1]" || host.startsWith("127.");
}

/** Black on white in every theme, so that cameras can read it. */
function QrCode({ text }: { text: string }) {
  const { size, path } = useMemo(() => {
    const { size, data } = encode(text, { border: 2 });
    const cells = data.flatMap((row, y) => row.flatMap((dark, x) => (dark ? [`M${x} ${y}h1v1h-1z`] : [])));
    return { size, path: cells.join("") };
  }, [text]);
  return (
    <svg
      viewBox={`0 0 ${size} ${size}`}
      role="img"
      aria-label="QR code of the link"
      shapeRendering="crispEdges"
    >
      <path d={path} fill="#000" />
    </svg>
  );
}
