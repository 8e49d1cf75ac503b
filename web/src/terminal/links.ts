/** URLs that may be opened. */

export function isWeb(address: string): boolean {
  return URL.canParse(address) && ["http:", "https:"].includes(new URL(address).protocol);
}
