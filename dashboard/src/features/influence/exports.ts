export { type Column, filesOf } from "@/charts/files";
