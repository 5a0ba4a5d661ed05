import { describe, expect, it } from "vitest";
import { linearAxis, logAxis } from "@/charts/axis";
import type { ChartCurve } from "./CurvesChart";
import { type CurveFrame, pointedAt } from "./curvesFrame";

const frame = (logY = false): CurveFrame => ({
  width: 200,
  height: 128,
  left: 50,
  right: 50,
  logY,
  xText: String,
  xAxis: linearAxis(0, 100, 5),
  yAxis: logY ? logAxis(0.01, 1, 5) : linearAxis(0, 1, 5),
});

const curve = (id: string, values: number[], faint = false): ChartCurve => ({
  id,
  label: id,
  step: values.map((_, index) => index * 10),
  value: values,
  colour: "#000",
  textColour: "#000",
  faint,
});

describe("pointedAt", () => {
  const flat = (value: number) => Array.from({ length: 11 }, () => value);

  it("finds the curve nearest to the pointer, and the point nearest along it", () => {
    const curves = [curve("low", flat(0.2)), curve("high", flat(0.8))];
    // Half way along, near the top: 8 px above, 20 px below, so 100 px for the values.
    expect(pointedAt(frame(), curves, 100, 8 + 20 + 3)).toMatchObject({ id: "high", index: 5, x: 50 });
    expect(pointedAt(frame(), curves, 104, 8 + 80)).toMatchObject({ id: "low", index: 5 });
  });

  it("means nothing far from every curve, or outside of the axes", () => {
    const curves = [curve("low", flat(0.1))];
    expect(pointedAt(frame(), curves, 100, 20)).toBeNull();
    expect(pointedAt(frame(), curves, 10, 98)).toBeNull();
  });

  it("prefers a curve with a colour and passes over what has no place on a log scale", () => {
    const curves = [curve("grey", flat(0.5), true), curve("named", flat(0.5))];
    expect(pointedAt(frame(), curves, 100, 58)?.id).toBe("named");
    expect(pointedAt(frame(true), [curve("zero", flat(0))], 100, 108)).toBeNull();
  });
});
