import { describe, expect, it } from "vitest";
import { pairQuery } from "@/api/datasets";
import type { ClusterOut, NegativeOut, PairOut } from "@/api/types";
import {
  clusterColours,
  constantFrom,
  largestSimilarity,
  sharesOf,
  sizeOf,
  stackOf,
  tiersOf,
  wholeNumber,
} from "./curriculum";

const cluster = (number: number, train: number, val = 0): ClusterOut => ({
  cluster: number,
  pairs: { train, val, test: 0 },
  mean_distance: 0.2,
});

const negative = (tier: number, similarity: NegativeOut["similarity"], place: number): NegativeOut => ({
  id: 100 + place,
  text: null,
  similarity,
  tier,
  place,
  of_positive: null,
});

describe("clusterColours", () => {
  it("gives the six largest a colour each, by size", () => {
    const clusters = [5, 40, 10, 30, 20, 8, 7, 6].map((size, at) => cluster(at, size));
    const colours = clusterColours(clusters);
    expect([...colours.keys()]).toEqual([1, 3, 4, 2, 5, 6]);
    expect(colours.get(1)).toBe(0);
    expect(colours.has(0)).toBe(false);
  });

  it("counts all splits, and keeps the order of equals", () => {
    expect(sizeOf(cluster(0, 3, 4))).toBe(7);
    expect([...clusterColours([cluster(1, 5), cluster(0, 4, 1)]).keys()]).toEqual([0, 1]);
  });
});

describe("tiersOf", () => {
  it("groups by tier and puts the nearest first", () => {
    const tiers = tiersOf([negative(3, 0.2, 0), negative(1, 0.5, 1), negative(1, 0.9, 2)]);
    expect(tiers.map(({ tier }) => tier)).toEqual([1, 3]);
    expect(tiers[0]?.negatives.map(({ place }) => place)).toEqual([2, 1]);
    expect(tiers[0]?.mean).toBeCloseTo(0.7);
  });

  it("leaves what is no number out of the mean and puts it last", () => {
    const [tier] = tiersOf([negative(2, "NaN", 0), negative(2, 0.4, 1)]);
    expect(tier?.mean).toBeCloseTo(0.4);
    expect(tiersOf([negative(2, "NaN", 0)])[0]?.mean).toBeNull();
  });
});

describe("largestSimilarity", () => {
  it("is that of the source or of a negative, and never zero", () => {
    const source = { id: 1, text: null, similarity: 0.5 };
    const of = (negatives: NegativeOut[]) => largestSimilarity({ source, negatives } as unknown as PairOut);
    expect(of([negative(1, 0.8, 0)])).toBe(0.8);
    expect(of([negative(1, "NaN", 0)])).toBe(0.5);
    expect(largestSimilarity({ source: { ...source, similarity: -1 }, negatives: [] })).toBeGreaterThan(0);
  });
});

describe("shares", () => {
  it("stack from the bottom to one", () => {
    const stack = stackOf([0.5, 0.3, 0.2, 0]);
    expect(stack[0]).toEqual([0, 0.5]);
    expect(stack[3]?.[1]).toBeCloseTo(1);
    expect(stackOf([Number.NaN, 1])[0]).toEqual([0, 0]);
  });

  it("come from the wire as numbers", () => {
    expect(sharesOf({ shares: [[0.5, "NaN"]] })[0]?.[1]).toBeNaN();
  });

  it("rest from the epoch after which nothing changes", () => {
    expect(
      constantFrom([
        [1, 0],
        [0.5, 0.5],
        [0.5, 0.5],
      ]),
    ).toBe(1);
    expect(constantFrom([[1, 0]])).toBe(0);
  });
});

describe("addresses", () => {
  it("name only what is filtered", () => {
    expect(pairQuery({ split: null, cluster: null, offset: 0 })).toBe("offset=0&limit=100");
    expect(pairQuery({ split: "val", cluster: 3, offset: 200 })).toBe(
      "offset=200&limit=100&split=val&cluster=3",
    );
  });

  it("take whole numbers only", () => {
    expect(wholeNumber("17")).toBe(17);
    for (const odd of ["", "-1", "1.5", "x", "1e3", "1234567890123"]) expect(wholeNumber(odd)).toBeNull();
  });
});
