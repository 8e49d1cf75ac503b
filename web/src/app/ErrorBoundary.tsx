/** Contains errors of one part of the page, and offers to retry it. */
import { Component, type ReactNode } from "react";
import { neutralizeLine } from "../text/neutralize";
import { MissingCodeError } from "./lazy-part";

interface Props {
  /** Name of the part, such as `The terminal`. */
  what: string;
  children: ReactNode;
}

interface State {
  why: string | undefined;
  needsReload: boolean;
}

export class ErrorBoundary extends Component<Props, State> {
  override state: State = { why: undefined, needsReload: false };

  static getDerivedStateFromError(error: unknown): State {
    const why = error instanceof Error ? error.message : String(error);
    return { why, needsReload: error instanceof MissingCodeError };
  }

  override render(): ReactNode {
    const { why, needsReload } = this.state;
    const retry = () => (needsReload ? location.reload() : this.setState({ why: undefined }));
    if (why === undefined) return this.props.children;
    return (
      <div className="empty" role="alert">
        <p>
          {this.props.what} could not be shown: {neutralizeLine(why)}
        </p>
        <button type="button" onClick={retry}>
          {needsReload ? "Reload the page" : "Try again"}
        </button>
      </div>
    );
  }
}
