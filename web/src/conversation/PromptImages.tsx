/** Images of the current prompt: pasted, dropped or chosen. They are uploaded immediately and sent with the text. */
import { type ClipboardEvent, type DragEvent, useCallback, useLayoutEffect, useRef, useState } from "react";
import { storeImage } from "../protocol/api";
import { RequestError } from "../protocol/request-error";
import { addedImages, IMAGES_MAX } from "../state/draft";
import type { SessionStore } from "../state/session-store";
import * as storage from "../state/storage";
import { oneLine } from "../text/neutralize";
import type { PromptImage } from "../wire";

const MEDIA_TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

const TOO_MANY = `A prompt may have at most ${IMAGES_MAX} images.`;

interface PromptImages {
  images: readonly PromptImage[];
  /** Number of images being uploaded. */
  uploading: number;
  problem: string;
  add(files: Iterable<File>): void;
  remove(artifact: string): void;
  /** Returns and clears the images. */
  take(): PromptImage[];
  handlers: {
    onPaste(event: ClipboardEvent): void;
    onDragOver(event: DragEvent): void;
    onDrop(event: DragEvent): void;
  };
}

function leftOut(count: number): string {
  return count === 1 ? "1 image was left out." : `${count} images were left out.`;
}

function imagesOf(files: Iterable<File>): File[] {
  return [...files].filter((file) => MEDIA_TYPES.includes(file.type));
}

export function usePromptImages(store: SessionStore): PromptImages {
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
    const found = imagesOf(files);
    if (found.length === 0) return setProblem("Only PNG, JPEG, GIF and WebP images can be attached.");
    if (images.length + uploading + found.length > IMAGES_MAX) {
      return setProblem(TOO_MANY);
    }
    setProblem("");
    for (const file of found) {
      setUploading((count) => count + 1);
      storeImage(store.id, file)
        .then((stored) => store.appendToDraft("", [stored]))
        .catch((error) => setProblem(error instanceof RequestError ? error.message : String(error)))
        .finally(() => setUploading((count) => count - 1));
    }
  };
  const takes = (transfer: DataTransfer | null) => transfer !== null && imagesOf(transfer.files).length > 0;
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
        if (!takes(event.clipboardData)) return;
        event.preventDefault();
        add(event.clipboardData.files);
      },
      onDragOver: (event) => {
        if (event.dataTransfer.types.includes("Files")) event.preventDefault();
      },
      onDrop: (event) => {
        if (!takes(event.dataTransfer)) return; // another file: the conversation takes it
        event.preventDefault();
        add(event.dataTransfer.files);
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
  /** Uploads a file that is not an image; undefined if that is not allowed. */
  upload: ((file: File) => void) | undefined;
  disabled: boolean;
}

/** Button that opens the file dialog. As with dropped files, images are attached, and another file is uploaded. */
export function AttachFile({ attached, upload, disabled }: AttachFileProps) {
  const input = useRef<HTMLInputElement>(null);
  const name = upload ? "Attach an image or upload a file" : "Attach an image";
  const take = (files: File[]) => {
    const other = upload && files.find((file) => !MEDIA_TYPES.includes(file.type));
    if (other) upload(other);
    if (files.some((file) => file !== other)) attached.add(files);
  };
  return (
    <>
      <input
        ref={input}
        type="file"
        hidden
        multiple
        accept={upload ? undefined : MEDIA_TYPES.join(",")}
        onChange={(event) => {
          take([...(event.target.files ?? [])]);
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
