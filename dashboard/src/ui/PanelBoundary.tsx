import { Component, type ReactNode } from "react";
import { Panel, PanelAction } from "./Panel";

interface Props {
  title: string;
  children: ReactNode;
}

interface State {
  problem: Error | null;
}

/** Keeps an error of one panel inside it: the other panels work, and it can be tried again. */
export class PanelBoundary extends Component<Props, State> {
  override state: State = { problem: null };

  static getDerivedStateFromError(problem: unknown): State {
    return { problem: problem instanceof Error ? problem : new Error(String(problem)) };
  }

  override render(): ReactNode {
    const { problem } = this.state;
    if (problem === null) return this.props.children;
    const again = <PanelAction onClick={() => this.setState({ problem: null })}>Try again</PanelAction>;
    const text = `${problem.name}: ${problem.message}. Training is not affected.`;
    return (
      <Panel
        title={this.props.title}
        className="h-full"
        state={{ kind: "error", title: "This panel crashed", text, action: again }}
      />
    );
  }
}
