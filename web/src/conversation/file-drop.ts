/** Files that are dragged into a conversation. */
import { type DragEvent, useState } from "react";

interface Drop {
  /** True while a file is dragged over the conversation. */
  over: boolean;
  handlers: {
    onDragOver?(event: DragEvent): void;
    onDragLeave?(event: DragEvent): void;
    onDrop?(event: DragEvent): void;
  };
}

/** Gives dropped files to `take`, unless that is undefined. */
export function useFileDrop(take: ((files: File[]) => void) | undefined): Drop {
  const [over, setOver] = useState(false);
  if (!take) return { over: false, handlers: {} };
  return {
    over,
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
        const files = [...event.dataTransfer.files];
        if (files.length === 0) return;
        event.preventDefault();
        take(files);
      },
    },
  };
}
