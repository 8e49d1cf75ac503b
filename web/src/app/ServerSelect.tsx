/** A choice whose value belongs to the server. */
import type { ComponentProps } from "react";

interface Props extends Omit<ComponentProps<"select">, "value" | "onChange"> {
  value: string;
  choose(value: string): void;
}

/** Shows the server's value: another one that the user chose is shown only when the server has taken it. */
export function ServerSelect({ value, choose, ...more }: Props) {
  return (
    <select
      {...more}
      value={value}
      onChange={({ target }) => {
        const chosen = target.value;
        target.value = value;
        choose(chosen);
      }}
    />
  );
}
