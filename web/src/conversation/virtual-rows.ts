/** Virtualizer of a list of rows, which draws only the rows in view. */
import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from "@tanstack/virtual-core";
import { useLayoutEffect, useReducer, useState } from "react";

type RowVirtualizer = Virtualizer<HTMLElement, HTMLElement>;
type RowOptions = Pick<
  RowVirtualizer["options"],
  "count" | "getScrollElement" | "estimateSize" | "getItemKey" | "overscan"
>;

/** Returns the virtualizer of a list. The component renders again when other rows come into view. */
export function useVirtualRows(rowOptions: RowOptions): RowVirtualizer {
  const [, render] = useReducer((count: number) => count + 1, 0);
  const options = {
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    ...rowOptions,
    onChange: () => render(),
  };
  const [virtual] = useState(() => new Virtualizer<HTMLElement, HTMLElement>(options));
  virtual.setOptions(options);
  useLayoutEffect(() => virtual._didMount(), [virtual]);
  useLayoutEffect(() => virtual._willUpdate());
  return virtual;
}
