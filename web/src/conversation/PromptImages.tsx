/** Images of the current prompt: pasted, dropped or chosen. They are uploaded immediately and sent with the text. */
import { type ClipboardEvent, useCallback, useLayoutEffect, useRef, useState } from "react";
import { storeImage } from "../protocol/api";
import { RequestError } from "../protocol/request-error";
import { addedImages, IMAGES_MAX } from "../state/draft";
import type { SessionStore } from "../state/session-store";
import * as storage from "../state/storage";
import { oneLine } from "../text/neutralize";
import type { PromptImage } from "../wire";

const MEDIA_TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

const ONLY_IMAGES = "Only PNG, JPEG, GIF and WebP images can be attached.";
const TOO_MANY = `A prompt may have at most ${IMAGES_MAX} images.`;

/** Uploads a file, or returns why it does not. */
export type Upload = (file: File) => string | undefined;

interface PromptImages {
  images: readonly PromptImage[];
  /** Number of images being uploaded. */
  uploading: number;
  problem: string;
  /** Attaches images, and uploads one other file if that is allowed. Names the files that it does not take. */
  add(files: Iterable<File>): void;
  remove(artifact: string): void;
  /** Returns and clears the images. */
  take(): PromptImage[];
  handlers: {
    onPaste(event: ClipboardEvent): void;
  };
}

function leftOut(count: number): string {
  return count === 1 ? "1 image was left out." : `${count} images were left out.`;
}

function isImage({ type }: File): boolean {
  return MEDIA_TYPES.includes(type);
}

function notTaken(files: readonly File[]): string {
  return `Not taken: ${files.map(({ name }) => oneLine(name)).join(", ")}.`;
}

/** `upload` uploads a file that is not an image; undefined if that is not allowed. */
export function usePromptImages(store: SessionStore, upload: Upload | undefined): PromptImages {
  // The excess stays in the storage until the images change.
  const [{ images, excess }, setAttached] = useState(() => addedImages([], storage.draftImages(store.id)));
  const [uploading, setUploading] = useState(0);
  const [problem, setProblem] = useState("");
  const become = useCallback(
    (change: (before: readonly PromptImage[]) => ReturnType<typeof addedImages>) =>
      setAttached((before) => {
        const next = change(before.images);
        storage.saveDraftImages(store.id, next.images);
        return next;
      }),
    [store],
  );
  useLayoutEffect(
    () => store.onDraft((_, more) => more.length > 0 && become((before) => addedImages(before, more))),
    [store, become],
  );
  const add = (files: Iterable<File>) => {
    const all = [...files];
    const found = all.filter(isImage);
    const others = all.filter((file) => !isImage(file));
    const [first] = others;
    const refused = first && upload?.(first);
    const left = upload && !refused ? others.slice(1) : others;
    const why = refused ?? (upload ? "One file at a time can be uploaded." : ONLY_IMAGES);
    const problems = left.length > 0 ? [notTaken(left), why] : [];
    const fit = images.length + uploading + found.length <= IMAGES_MAX;
    if (!fit) problems.push(notTaken(found), TOO_MANY);
    setProblem(problems.join(" "));
    let before: Promise<void> | undefined;
    for (const file of fit ? found : []) {
      setUploading((count) => count + 1);
      const earlier = before;
      before = storeImage(store.id, file)
        .then((stored) => Promise.resolve(earlier).then(() => store.appendToDraft("", [stored])))
        .catch((error) => setProblem(error instanceof RequestError ? error.message : String(error)))
        .finally(() => setUploading((count) => count - 1));
    }
  };
  return {
    images,
    uploading,
    problem: problem || (excess > 0 ? `${TOO_MANY} ${leftOut(excess)}` : ""),
    add,
    remove: (artifact) =>
      become((before) => ({ images: before.filter((image) => image.artifact !== artifact), excess: 0 })),
    take: () => {
      become(() => ({ images: [], excess: 0 }));
      setProblem("");
      return [...images];
    },
    handlers: {
      onPaste: (event) => {
        const pasted = [...(event.clipboardData?.files ?? [])].filter(isImage);
        if (pasted.length === 0) return;
        event.preventDefault();
        add(pasted);
      },
    },
  };
}

/** Attached images, each with a remove button. */
export function ImageChips({ attached }: { attached: PromptImages }) {
  const { images, uploading, problem, remove } = attached;
  if (images.length === 0 && uploading === 0 && !problem) return null;
  return (
    <div className="images">
      {images.length > 0 && (
        <ul aria-label="Attached images">
          {images.map(({ artifact, name = "image", width, height }) => (
            <li key={artifact}>
              {oneLine(name)} <span className="meta">{`${width}×${height}`}</span>
              <button
                type="button"
                className="icon"
                aria-label={`Remove ${oneLine(name)}`}
                onClick={() => remove(artifact)}
              >
                ×
              </button>
            </li>
          ))}
        </ul>
      )}
      {uploading > 0 && <span className="meta">Sending the image…</span>}
      {problem && (
        <span className="warning" role="alert">
          {problem}
        </span>
      )}
    </div>
  );
}

interface AttachFileProps {
  attached: PromptImages;
  /** True if a file that is not an image can be uploaded. */
  uploads: boolean;
  disabled: boolean;
}

/** Button that opens the file dialog. Chosen files are taken like dropped ones. */
export function AttachFile({ attached, uploads, disabled }: AttachFileProps) {
  const input = useRef<HTMLInputElement>(null);
  const name = uploads ? "Attach an image or upload a file" : "Attach an image";
  return (
    <>
      <input
        ref={input}
        type="file"
        hidden
        multiple
        accept={uploads ? undefined : MEDIA_TYPES.join(",")}
        onChange={(event) => {
          attached.add(event.target.files ?? []);
          event.target.value = "";
        }}
      />
      <button
        type="button"
        className="icon attach"
        title={name}
        aria-label={name}
        disabled={disabled}
        onClick={() => input.current?.click()}
      >
        <svg className="picture" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
          <path d="M2 3h12v10H2zM2.5 11.5l3.5-4 3 3 2-2 3 3M10.8 5.8h.1" />
        </svg>
      </button>
    </>
  );
}
