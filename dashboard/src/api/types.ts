/** Names of the wire format, as the page speaks of them. The shapes are generated from the server's OpenAPI. */
import type { components } from "./types.gen";

type Schemas = components["schemas"];

export type StateOut = Schemas["StateOut"];
export type RunState = StateOut["state"];
export type Evidence = Schemas["Evidence"];
export type StopOut = Schemas["StopOut"];
export type Diagnosis = Schemas["DiagnosisOut"];
export type DiagnosedLayer = Schemas["LayerOut"];
export type DiagnosedChange = Schemas["ChangeOut"];
export type Plane = Schemas["PlaneOut"];
export type CommandOut = Schemas["CommandOut"];
export type EventMessage = Schemas["EventMessage"];
export type BreakpointOut = Schemas["BreakpointOut"];
export type Condition = Schemas["BreakpointIn"]["condition"];
export type BreakpointAction = BreakpointOut["action"];
export type RuleOut = Schemas["RuleOut"];
export type ExplanationOut = Schemas["ExplanationOut"];
export type RewindOut = Schemas["RewindOut"];
export type BatchOut = Schemas["BatchOut"];
export type SampleOut = Schemas["SampleOut"];
export type GridOut = Schemas["GridOut"];
export type StepDataOut = Schemas["StepDataOut"];
export type StepDataKeys = Schemas["StepDataKeys"];
export type PanelOut = Schemas["PanelOut"];
export type ForcesOut = Schemas["ForcesOut"];
export type ForceDetailOut = Schemas["ForceDetailOut"];
export type MatrixSource = Schemas["CosineMatrixOut"]["source"];
export type WatchOut = Schemas["WatchOut"];
export type TensorSummary = Schemas["TensorSummary"];
export type Problem = Schemas["Problem"];
export type InfluenceListOut = Schemas["InfluenceListOut"];
export type InfluenceSummary = Schemas["InfluenceSummary"];
export type InfluenceOut = Schemas["InfluenceOut"];
export type InfluenceRequestOut = Schemas["InfluenceRequestOut"];
export type InfluenceUpdateSequence = Schemas["InfluenceUpdateSequence"];
export type InfluenceEvaluatedSequence = Schemas["InfluenceEvaluatedSequence"];
export type InfluenceDelta = Schemas["InfluenceDelta"];
export type InfluenceValidation = Schemas["InfluenceValidation"];

export type SweepList = Schemas["SweepList"];
export type SweepOut = Schemas["SweepOut"];
export type SweepRow = Schemas["SweepRowOut"];
export type SweepAxis = Schemas["SweepAxisOut"];
export type SweepCell = Schemas["SweepCellOut"];
export type SweepEffect = Schemas["SweepEffectOut"];

export type DatasetListOut = Schemas["DatasetListOut"];
export type DatasetSummary = Schemas["DatasetSummary"];
export type DatasetOut = Schemas["DatasetOut"];
export type DatasetMapOut = Schemas["DatasetMapOut"];
export type ClusterOut = Schemas["ClusterOut"];
export type PairListOut = Schemas["PairListOut"];
export type PairLine = Schemas["PairLine"];
export type PairOut = Schemas["PairOut"];
export type NegativeOut = Schemas["NegativeOut"];
export type CurriculumOut = Schemas["CurriculumOut"];
export type ScheduleOut = Schemas["ScheduleOut"];
export type DatasetAuditOut = Schemas["DatasetAuditOut"];
export type AuditOut = Schemas["AuditOut"];
export type LedgerOut = Schemas["LedgerOut"];

/** One run of the list, live or ended. */
export type RunRow = Schemas["RunOut"];
export type RunDetail = Schemas["RunDetail"];
export type RunListing = Schemas["RunList"];
/** States of live runs, and those that only a list can tell of. */
export type ListedState = RunRow["state"];
/** A setting of a run, with dots between the levels of its key. */
export type ConfigValue = RunRow["config"][string];
/** A number on the wire, where NaN and the infinities are words. */
export type WireValue = RunRow["summary"][string];

/** What the stream of the run list says; a server of one run greets with that run instead. */
export type RunsMessage = Schemas["RunsMessage"];
export type ListMessage = RunsMessage | { type: "ping" } | { type: "hello" };

export type RunFile = Schemas["FileOut"];
export type FileKind = RunFile["kind"];
export type RunFiles = Schemas["FilesOut"];
export type ConsolePart = Schemas["ConsoleOut"];
export type MediaList = Schemas["MediaListOut"];
export type MediaGroup = Schemas["MediaGroupOut"];
export type MediaGroupDetail = Schemas["MediaGroupDetail"];
export type MediaItem = Schemas["MediaItemOut"];
export type MediaContent = Schemas["MediaContentOut"];
export type PictureOut = Schemas["PictureOut"];
export type HistogramOut = Schemas["HistogramOut"];
export type KeptEvidence = Schemas["EvidenceOut"];
export type Stop = Schemas["KeptStopOut"];
export type Checkpoint = Schemas["KeptCheckpoint"];
export type TimelineOut = Schemas["TimelineOut"];
export type LineageOut = Schemas["LineageOut"];
export type Removed = Schemas["DeletedOut"];
export type RecipeSetting = Schemas["SettingOut"];
export type Recipe = Schemas["RecipeOut"];
export type RecipeList = Schemas["RecipeList"];
export type RecipeSettingValue = NonNullable<Schemas["PreviewIn"]["settings"]>[string];
export type RecipePreview = Schemas["PreviewOut"];
export type ScriptList = Schemas["ScriptList"];
export type Script = Schemas["ScriptOut"];
export type DataFileList = Schemas["DataFileList"];

/** By the loop, by SIGTERM, by SIGKILL. */
export type StopLevel = "stop" | Schemas["EndIn"]["how"];

export type HelloMessage = Schemas["HelloMessage"];
export type CaptureMessage = Schemas["CaptureMessage"];
export type ScalarsMessage = Schemas["ScalarsMessage"];
export type StreamMessage =
  | HelloMessage
  | ScalarsMessage
  | Schemas["StateMessage"]
  | EventMessage
  | Schemas["CommandMessage"]
  | Schemas["BreakpointsMessage"]
  | CaptureMessage
  | Schemas["PingMessage"];

/** A scalar on the wire: strict JSON has no NaN, so the three travel as strings. */
export type WireNumber = number | "NaN" | "Infinity" | "-Infinity";

/** Turns a scalar of the wire into a number; none stays none. */
export function fromWire(value: WireNumber | null | undefined): number | null {
  if (value === null || value === undefined) return null;
  return typeof value === "number" ? value : Number(value);
}
