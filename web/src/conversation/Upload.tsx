/**
 * Upload of a text file to the session's host by `write_file`, as a call typed by the user: it runs immediately, is
 * logged and can be undone.
 */
import { type FormEvent, useEffect, useState } from "react";
import { useModal } from "../app/Dialog";
import { useMachine } from "../app/me";
import type { SessionStore } from "../state/session-store";
import { hostLabel } from "../text/labels";
import { neutralizeLine, stripInvisible } from "../text/neutralize";

/** Maximum size of a file, in KiB; larger ones need `scp`. */
const KIB_MAX = 256;

/** Returns the text of a file, or the reason why it cannot be sent. */
async function textOf(file: File): Promise<{ text: string } | { why: string }> {
  const kib = Math.ceil(file.size / 1024);
  if (kib > KIB_MAX)
    return { why: `The file has ${kib} KiB; the limit is ${KIB_MAX} KiB. Copy it with scp.` };
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(await file.arrayBuffer());
    return text.includes("\0") ? { why: "This is not a text file. Copy it with scp." } : { text };
  } catch {
    return { why: "This is not a text file. Copy it with scp." };
  }
}

/** Returns a path for a file: its name without characters that would be invisible in the field, or reorder it. */
function pathFor({ name }: File): string {
  return stripInvisible(name).replace(/[\t\n]/g, "");
}

interface Props {
  store: SessionStore;
  file: File;
  close(): void;
}

export function UploadDialog({ store, file, close }: Props) {
  const dialog = useModal();
  const machine = useMachine();
  const [read, setRead] = useState<{ text: string } | { why: string }>();
  const { facts } = store.snapshot().transcript;
  useEffect(() => {
    let here = true;
    void textOf(file).then((found) => here && setRead(found));
    return () => {
      here = false;
    };
  }, [file]);
  const send = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const path = String(new FormData(event.currentTarget).get("path") ?? "").trim();
    if (!path || !read || !("text" in read)) return;
    store.upload(path, read.text);
    dialog.current?.close();
  };
  return (
    <dialog ref={dialog} aria-labelledby="upload-title" onClose={close}>
      <form className="inner" onSubmit={send}>
        <h2 id="upload-title">Upload {neutralizeLine(file.name)}</h2>
        <label className="named">
          Path on {hostLabel(facts?.host ?? "", machine)}, below {neutralizeLine(facts?.root ?? "")}
          <input
            name="path"
            className="field"
            defaultValue={pathFor(file)}
            spellCheck="false"
            autoComplete="off"
          />
        </label>
        <p className="meta">
          An existing file with this name will be replaced. The upload is logged like a command.
        </p>
        {read && "why" in read && (
          <p className="warning" role="alert">
            {read.why}
          </p>
        )}
        <footer>
          <button type="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={!read || "why" in read}>
            Upload
          </button>
        </footer>
      </form>
    </dialog>
  );
}
