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

type Done = 200 | 201 | 202 | 204;

type Method = "post" | "put" | "patch" | "delete";

/** What a write answers when it is done, has created something, or is still under way; null where nothing is left. */
type WrittenOf<Operation> = Operation extends { responses: infer Responses }
  ? {
      [Status in keyof Responses & Done]: Responses[Status] extends {
        content: { "application/json": infer Body };
      }
        ? Body
        : Status extends 204
          ? null
          : never;
    }[keyof Responses & Done]
  : never;

/** Routes that take a write of this method. */
export type WriteRoute<M extends Method> = {
  [R in keyof Routes]: Routes[R] extends { [K in M]: infer Operation }
    ? [WrittenOf<Operation>] extends [never]
      ? never
      : R
    : never;
}[keyof Routes];

export type WrittenBy<M extends Method, R extends keyof Routes> = Routes[R] extends {
  [K in M]: infer Operation;
}
  ? WrittenOf<Operation>
  : never;
