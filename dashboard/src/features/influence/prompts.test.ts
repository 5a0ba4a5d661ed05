import { describe, expect, it } from "vitest";
import { namesOf, promptGroups } from "./prompts";

const templated = (question: string) =>
  `Think first, then answer. Put the answer into tags.\nUser: ${question}\nAssistant:`;
const called = (...questions: string[]) => {
  const names = namesOf(questions.map(templated));
  return questions.map((question) => names.get(templated(question)));
};

describe("namesOf", () => {
  it("leaves short prompts as they are", () => {
    expect([...namesOf(["9+9=", "9+8=", "9+9="])]).toEqual([
      ["9+9=", "9+9="],
      ["9+8=", "9+8="],
    ]);
  });

  it("takes the template away", () => {
    const names = called(
      "Ann sells 12 eggs a day. How many a week?",
      "Bo runs.",
      "Why does a robe need two?",
    );
    expect(names).toEqual(["Ann sells 12 eggs a day. Ho…", "Bo runs.", "Why does a robe need two?"]);
  });

  it("begins where prompts with the same beginning differ", () => {
    const others = ["Who has any?", "Can Bo count?", "Is it late?", "When?"];
    const names = called("Tom has 12 eggs.", "Tom has 15 eggs.", "Tom has 12 hens.", ...others);
    expect(names).toEqual(["…eggs.", "Tom has 15 eggs.", "…hens.", ...others]);
  });

  it("is not led astray by one prompt without the template", () => {
    const stranger = "A question of quite another form, and a long one";
    const questions = ["How far is it?", "Can you count?", "Is it late?"].map(templated);
    const names = namesOf([...questions, stranger]);
    expect(questions.map((one) => names.get(one))).toEqual([
      "How far is it?",
      "Can you count?",
      "Is it late?",
    ]);
    expect(names.get(stranger)).toBe("A question of quite another…");
  });

  it("gives different prompts different names however they differ", () => {
    const long = "word".repeat(50);
    const prompts = [long, `${long}y`, `y${long}`, `${long} end`, `${long}\nend of it`, `${long} so, end`];
    const names = prompts.map((one) => namesOf(prompts).get(one));
    expect(new Set(names).size, names.join(" | ")).toBe(prompts.length);
  });

  it("shows the last sentence of a long prompt that stands alone", () => {
    expect(called("Ann sells 12 eggs.")).toEqual(["User: Ann sells 12 eggs."]);
  });
});

describe("promptGroups", () => {
  it("joins neighbours of one prompt", () => {
    const update = ["1+1=", "1+1=", "2+2="].map((prompt) => ({ global_prompt_id: prompt, prompt }));
    const names = namesOf(update.map(({ prompt }) => prompt));
    expect(promptGroups(update, [0, 1, 2], names)).toMatchObject([
      { from: 0, count: 2, name: "1+1=" },
      { from: 2, count: 1, name: "2+2=" },
    ]);
  });
});
