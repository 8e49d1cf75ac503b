/** Files that are dragged into a conversation or chosen for it. Images are handled elsewhere. */
import { type DragEvent, useState } from "react";

interface Drop {
  /** True while a file is dragged over the page. */
  over: boolean;
  file: File | undefined;
  done(): void;
  /** Takes a file that was chosen in a dialog; undefined if uploads are not allowed. */
  choose: ((file: File) => void) | undefined;
  handlers: {
    onDragOver?(event: DragEvent): void;
    onDragLeave?(event: DragEvent): void;
    onDrop?(event: DragEvent): void;
  };
}

/** Accepts one file if uploads are allowed. */
export function useFileDrop(allowed: boolean): Drop {
  const [over, setOver] = useState(false);
  const [file, setFile] = useState<File>();
  const done = () => setFile(undefined);
  if (!allowed) return { over: false, file: undefined, done, choose: undefined, handlers: {} };
  return {
    over,
    file,
    done,
    choose: setFile,
    handlers: {
      onDragOver: (event) => {
        if (!event.dataTransfer.types.includes("Files")) return;
        event.preventDefault();
        setOver(true);
      },
      onDragLeave: (event) => {
        const { currentTarget, relatedTarget } = event;
        if (!(relatedTarget instanceof Node && currentTarget.contains(relatedTarget))) setOver(false);
      },
      onDrop: (event) => {
        setOver(false);
        const [dropped] = event.dataTransfer.files;
        if (!dropped || event.defaultPrevented) return;
        event.preventDefault();
        setFile(dropped);
      },
    },
  };
}
