/** Requests of the form for a new run: data files of the server, and the composed config. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { type ApiError, api } from "./client";
import type { DataFileList, RecipePreview, RecipeSettingValue } from "./types";

/** The files that a setting of the kind `file` can name. */
export function useDataFiles() {
  return useQuery<DataFileList, ApiError>({
    queryKey: ["recipes", "files"],
    queryFn: ({ signal }) => api.get<"/recipes/files">("/recipes/files", signal),
  });
}

/** All settings that a run would have, as YAML. */
export function usePreview(recipe: string, settings: Readonly<Record<string, RecipeSettingValue>>) {
  return useQuery<RecipePreview, ApiError>({
    queryKey: ["recipes", "preview", recipe, settings],
    queryFn: async () =>
      (await api.post<"/recipes/preview">("/recipes/preview", { recipe, settings: { ...settings } })).body,
    placeholderData: keepPreviousData,
    retry: false,
  });
}
