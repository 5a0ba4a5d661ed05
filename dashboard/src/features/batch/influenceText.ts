export const INFLUENCE = "Influence: which samples changed which losses";
