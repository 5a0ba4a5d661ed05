/** What each route answers, from the server's OpenAPI document. */
import type { paths } from "./types.gen";

/** The routes without their prefix, as the page writes them. */
type Routes = { [P in keyof paths as P extends `/api/v1${infer Route}` ? Route : never]: paths[P] };

type JsonOf<Operation> = Operation extends {
  responses: { 200: { content: { "application/json": infer Body } } };
}
  ? Body
  : never;

type AnswerTo<Route> = Route extends { get: infer Operation } ? JsonOf<Operation> : never;

/** Routes that answer a GET with JSON. */
export type JsonRoute = {
  [R in keyof Routes]: [AnswerTo<Routes[R]>] extends [never] ? never : R;
}[keyof Routes];

/** The answer of a route; a route that does not exist is an error of the compiler. */
export type AnswerOf<R extends JsonRoute> = AnswerTo<Routes[R]>;
