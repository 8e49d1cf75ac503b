/** Contains errors of one part of the page, and offers to retry it. */
import { Component, type ReactNode } from "react";
import { neutralizeLine } from "../text/neutralize";

interface Props {
  /** Name of the part, such as `The terminal`. */
  what: string;
  children: ReactNode;
}

export class ErrorBoundary extends Component<Props, { why: string | undefined }> {
  override state = { why: undefined as string | undefined };

  static getDerivedStateFromError(error: unknown): { why: string } {
    return { why: error instanceof Error ? error.message : String(error) };
  }

  override render(): ReactNode {
    const { why } = this.state;
    if (why === undefined) return this.props.children;
    return (
      <div className="empty" role="alert">
        <p>
          {this.props.what} could not be shown: {neutralizeLine(why)}
        </p>
        <button type="button" onClick={() => this.setState({ why: undefined })}>
          Try again
        </button>
      </div>
    );
  }
}
