import { Component, type ReactNode } from "react";

interface Props {
  onFailure?: () => void;
  children: ReactNode;
}

/** Leaves out a part of the frame whose code cannot be loaded, as after the server has ended; the page stays. */
export class PartBoundary extends Component<Props, { hasFailed: boolean }> {
  override state = { hasFailed: false };

  static getDerivedStateFromError(): { hasFailed: boolean } {
    return { hasFailed: true };
  }

  override componentDidCatch(): void {
    this.props.onFailure?.();
  }

  override render(): ReactNode {
    return this.state.hasFailed ? null : this.props.children;
  }
}
