/** Where the time of a few steps went, for a run that was profiled; nothing for any other. */
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { readRunFile, useRunFiles } from "@/api/runs";
import type { RunFile } from "@/api/types";
import { Panel, panelState } from "@/ui";
import { DataTable, type Sort, type TableColumn } from "@/ui/table/DataTable";
import { PROFILE_PATH, type ProfileRow, profileOf, profileText } from "./profile";

interface ProfilePanelProps {
  runId: string;
  live: boolean;
}

export function ProfilePanel({ runId, live }: ProfilePanelProps) {
  const { data } = useRunFiles(runId, live);
  const file = data?.files.find(({ path }) => path === PROFILE_PATH);
  return file ? <ProfileTable runId={runId} file={file} /> : null;
}

function ProfileTable({ runId, file }: { runId: string; file: RunFile }) {
  const { data, error } = useQuery({
    queryKey: ["profile", runId, file.id, file.modified_at],
    queryFn: async ({ signal }) => {
      const profile = profileOf(JSON.parse(await (await readRunFile(runId, file.id, signal)).text()));
      if (profile === null) throw new Error(`${PROFILE_PATH} is no profile of midstep.`);
      return profile;
    },
    retry: false,
  });
  const [sort, setSort] = useState<Sort>({ column: "self_cpu_us", direction: "descending" });
  const columns = useMemo(() => columnsOf(data?.rows ?? []), [data]);
  return (
    <Panel
      title="Profile"
      fact={data && profileText(data)}
      className="min-h-0 flex-1"
      state={panelState({ data, error }, { what: "the profile" })}
    >
      <DataTable label="Slowest operations" columns={columns} sort={sort} onSort={setSort} />
    </Panel>
  );
}

const TITLES = {
  self_cpu_us: ["CPU, itself (ms)", "Time in the operation itself, on the CPU"],
  cpu_us: ["CPU, all (ms)", "Time with the operations that it calls, on the CPU"],
  self_device_us: ["GPU, itself (ms)", "Time in the operation itself, on the GPU"],
  device_us: ["GPU, all (ms)", "Time with the operations that it calls, on the GPU"],
} as const;

function columnsOf(rows: readonly ProfileRow[]): TableColumn[] {
  const usesDevice = rows.some(({ device_us }) => device_us > 0);
  const times = (Object.keys(TITLES) as (keyof typeof TITLES)[]).filter(
    (name) => usesDevice || !name.endsWith("device_us"),
  );
  return [
    {
      name: "name",
      title: "Operation",
      numeric: false,
      cells: rows.map(({ name }) => name),
      titleOf: (row) => rows[row]?.name,
      track: { width: "minmax(180px,1fr)", least: 180 },
      look: "font-mono",
    },
    { name: "calls", title: "Calls", numeric: true, cells: rows.map(({ calls }) => calls) },
    ...times.map((name) => ({
      name,
      title: TITLES[name][0],
      headTitle: TITLES[name][1],
      numeric: true,
      cells: rows.map((row) => row[name] / 1000),
      track: { width: "128px", least: 128 },
    })),
  ];
}
