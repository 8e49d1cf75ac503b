/** Icons as SVG, because not every font has them. They are decorative; the labels carry the meaning. */
import type { ReactNode } from "react";

const PATHS = {
  settings: (
    <>
      <path d="M2 4.8h6.6M12.4 4.8H14M2 11.2h1.6M7.4 11.2H14" />
      <circle cx="10.5" cy="4.8" r="1.9" />
      <circle cx="5.5" cy="11.2" r="1.9" />
    </>
  ),
  search: <path d="M7 2.8a4.2 4.2 0 1 1 0 8.4 4.2 4.2 0 0 1 0-8.4zM10.2 10.2l3.4 3.4" />,
  more: <path d="M3.5 8h.01M8 8h.01M12.5 8h.01" strokeWidth="2.4" />,
  pin: <path d="M5.5 2.5h5l-.7 4.2 2.2 2.1v1.2H4V8.8l2.2-2.1zM8 10v4" />,
  terminal: <path d="M2 3h12v10H2zM4.6 6l2 2-2 2M8.2 10h3" />,
  menu: <path d="M2.5 4.5h11M2.5 8h11M2.5 11.5h11" />,
  plus: <path d="M8 3v10M3 8h10" />,
  close: <path d="M4 4l8 8M12 4l-8 8" />,
  pause: <path d="M5.2 3.5v9M10.8 3.5v9" strokeWidth="2.6" />,
  resume: <path d="M4.5 3l8.5 5-8.5 5z" fill="currentColor" />,
  stop: <path d="M4 4h8v8H4z" fill="currentColor" />,
  retry: <path d="M12.8 6A5.2 5.2 0 1 0 13.2 9M13.2 2.8V6.2H9.8" />,
  newChat: (
    <path
      d="M6.5 2.5l1.3 3.4 3.4 1.3-3.4 1.3-1.3 3.4-1.3-3.4L1.8 7.2l3.4-1.3zM12.5 9.5v5M10 12h5"
      fill="none"
    />
  ),
  erase: <path d="M6 3.5h8v9H6L1.8 8zM8.2 6l4 4M12.2 6l-4 4" />,
  bolt: <path d="M9.2 1.5L3.5 9h4l-.8 5.5L12.5 7h-4z" fill="currentColor" strokeWidth="1" />,
  dark: <path d="M13 9.6A5.6 5.6 0 1 1 6.4 3a4.6 4.6 0 0 0 6.6 6.6z" />,
  light: (
    <path d="M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6zM8 1.2v1.6M8 13.2v1.6M1.2 8h1.6M13.2 8h1.6M3.2 3.2l1.1 1.1M11.7 11.7l1.1 1.1M12.8 3.2l-1.1 1.1M4.3 11.7l-1.1 1.1" />
  ),
  system: (
    <>
      <circle cx="8" cy="8" r="5.6" />
      <path d="M8 2.4a5.6 5.6 0 0 1 0 11.2z" fill="currentColor" />
    </>
  ),
  attach: <path d="M2 3h12v10H2zM4.6 6l2 2-2 2M8.2 10h3" />,
  down: <path d="M8 3v10M3.8 8.8L8 13l4.2-4.2" />,
} satisfies Record<string, ReactNode>;

export function Icon({ name }: { name: keyof typeof PATHS }) {
  return (
    <svg className="picture" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      {PATHS[name]}
    </svg>
  );
}
