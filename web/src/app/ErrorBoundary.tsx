/** A part of the page that breaks leaves the others alone, and can be tried again. */
import { Component, type ReactNode } from "react";
import { neutralizeLine } from "../text/neutralize";

interface Props {
  /** What it is, as in `The terminal`. */
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
