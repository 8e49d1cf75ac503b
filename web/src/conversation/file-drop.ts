/** Files that are dragged into a conversation. Images are handled elsewhere. */
import { type DragEvent, useState } from "react";

interface Drop {
  /** True while a file is dragged over the page. */
  over: boolean;
  file: File | undefined;
  done(): void;
  handlers: {
    onDragOver?(event: DragEvent): void;
    onDragLeave?(event: DragEvent): void;
    onDrop?(event: DragEvent): void;
  };
}

/** Accepts one dropped file if uploads are allowed. */
export function useFileDrop(allowed: boolean): Drop {
  const [over, setOver] = useState(false);
  const [file, setFile] = useState<File>();
  const done = () => setFile(undefined);
  if (!allowed) return { over: false, file: undefined, done, handlers: {} };
  return {
    over,
    file,
    done,
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
