// Generated from openapi.json by `npm run types`. Do not edit.

export interface paths {
    "/api/v1/curves": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Curves
         * @description One series of several runs; runs without it and unknown runs are left out.
         */
        get: operations["curves"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/datasets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Datasets
         * @description Datasets in the folders of `--data`, newest first.
         */
        get: operations["datasets"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/datasets/{dataset_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Dataset
         * @description Counts, splits, clusters, tiers, and whether it has texts, audit and ledger.
         */
        get: operations["dataset"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/datasets/{dataset_id}/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Dataset Audit
         * @description The builder's report on leaks between splits, and its ledger of short tiers.
         */
        get: operations["dataset_audit"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/datasets/{dataset_id}/curriculum": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Dataset Curriculum
         * @description Shares of the four steering variants over epochs, for each schedule.
         */
        get: operations["dataset_curriculum"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/datasets/{dataset_id}/map": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Dataset Map
         * @description Centroids and a sample of questions, projected on the plane of largest variance.
         */
        get: operations["dataset_map"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/datasets/{dataset_id}/pairs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Dataset Pairs
         * @description Pairs sorted by id, of one split or one cluster if given.
         */
        get: operations["dataset_pairs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/datasets/{dataset_id}/pairs/{pair}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Dataset Pair
         * @description Question, source, keywords, negatives by tier, steering vectors, variants over epochs.
         */
        get: operations["dataset_pair"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/health": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Health
         * @description The version of the server, without run data. Open without a token.
         */
        get: operations["health"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/influence": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Influence Results
         * @description Results in the folder `influence` next to the runs of this server, newest first.
         */
        get: operations["influence_results"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/influence/{result_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Influence Result
         * @description The update with texts and weights, coverage, validation, and the list of requests.
         */
        get: operations["influence_result"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/influence/{result_id}/{batch}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Influence Batch
         * @description The evaluated sequences of one batch: Δ with its terms, and the largest contributors.
         */
        get: operations["influence_batch"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/influence/{result_id}/{batch}/kernel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Influence Kernel
         * @description K of all pairs: rows are evaluated sequences, columns the update. Safetensors: float32.
         */
        get: operations["influence_kernel"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/influence/{result_id}/{batch}/what_if": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Influence What If
         * @description Δ under other advantages, from the stored kernel; the preconditioner stays fixed.
         */
        get: operations["influence_what_if"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/recipes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Recipe List
         * @description The trainings that can be started by name, with their typed settings.
         */
        get: operations["recipe_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/recipes/files": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Recipe Files
         * @description Files of the folders of `--data` that recipes can train on.
         */
        get: operations["recipe_files"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/recipes/preview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Preview Recipe
         * @description All settings that a run would have, without starting it.
         */
        post: operations["preview_recipe"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Runs
         * @description The runs of this server, newest first unless `sort` is given.
         */
        get: operations["runs"];
        put?: never;
        /**
         * Start Run
         * @description Start a recipe as a process that outlives this server. Answers once its run exists.
         */
        post: operations["start_run"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Run Detail
         * @description One run with its header record; a viewer token gets no command line and folder.
         */
        get: operations["run_detail"];
        put?: never;
        post?: never;
        /**
         * Delete Run
         * @description Delete the files that midstep wrote; other files stay and are named. 409 for a live run.
         */
        delete: operations["delete_run"];
        options?: never;
        head?: never;
        /**
         * Label Run
         * @description Replace the tags or the note of a run. A field that is left out stays as it is.
         */
        patch: operations["label_run"];
        trace?: never;
    };
    "/api/v1/runs/{run_id}/commands": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Commands
         * @description Return the command log, newest last.
         */
        get: operations["commands"];
        put?: never;
        /**
         * Submit Command
         * @description Submit a command; a repeated id is answered, not repeated.
         */
        post: operations["submit_command"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/commands/{command_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Command
         * @description Return what became of a command.
         */
        get: operations["command"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/commands/{command_id}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Cancel Command
         * @description Cancel a waiting command, or ask a running one to end.
         */
        post: operations["cancel_command"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/console": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Console
         * @description What a run printed, first lines and last lines; empty if that was not kept.
         *
         *     With `stop`: the last lines before that stop.
         */
        get: operations["console"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/debug/back": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Back
         * @description Go back N steps (1), or to a step. The run must be paused.
         */
        post: operations["back"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/debug/batch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Batch
         * @description The last captured batch without its picture; as safetensors all of it, at full resolution.
         *
         *     A request for what no stream shows leases it for 5 s; the first answer waits for the end of the
         *     step in progress, at most 2 s.
         */
        get: operations["batch"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/debug/batch/picture": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Batch Picture
         * @description The picture of the shown samples; a pixel with alpha 0 has a value that is not finite.
         */
        get: operations["batch_picture"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/debug/batch/sample": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Batch Sample
         * @description One sample at full resolution. The whole batch is leased for 5 s.
         *
         *     The PNG of an image sequence has all its images, as `grid` describes it.
         */
        get: operations["batch_sample"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/debug/breakpoints": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Breakpoints
         * @description All breakpoints with the hits of each so far.
         */
        get: operations["breakpoints"];
        put?: never;
        /**
         * Add Breakpoint
         * @description Add a breakpoint, which is checked from the next step boundary on.
         */
        post: operations["add_breakpoint"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/debug/breakpoints/{breakpoint_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Remove Breakpoint
         * @description Remove a breakpoint.
         */
        delete: operations["remove_breakpoint"];
        options?: never;
        head?: never;
        /**
         * Switch Breakpoint
         * @description Switch a breakpoint on or off, or set its action. Its hits stay.
         */
        patch: operations["switch_breakpoint"];
        trace?: never;
    };
    "/api/v1/runs/{run_id}/debug/cosine_matrix": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Cosine Matrix
         * @description Cosines of all pairs of rows: of weights, their targets, or the change by the gradient.
         *
         *     Above 512 rows a cell is the mean over a block, unless `full` is given; the statistics are
         *     always those of all pairs. As safetensors: `matrix` and `permutation`.
         */
        get: operations["cosine_matrix"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/debug/diagnosis": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Diagnosis
         * @description Where the last stop came from, and the error of a failed run; also of a stored run.
         *
         *     It stays after the run continues; `step` and `timeline` say which stop it is about. A view-only
         *     link gets no traceback.
         */
        get: operations["diagnosis"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/debug/forces": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Forces
         * @description Both forces on every row in the last shown step, and whether they agree or fight.
         *
         *     If only the gradient moves the tensor, the second force is 0 and every row is neutral.
         */
        get: operations["forces"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/debug/pause": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Pause
         * @description Pause the run at its next step boundary.
         */
        post: operations["pause"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/debug/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Resume
         * @description Continue the run.
         */
        post: operations["resume"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/debug/rewind": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Rewind
         * @description Return how far back the run can go, and what that costs.
         */
        get: operations["rewind"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/debug/rules": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Rules
         * @description The rules that can be added as breakpoints, with their limits and explanations.
         */
        get: operations["rules"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/debug/run_until": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Run Until
         * @description Continue the run, and pause when STEP steps are finished.
         */
        post: operations["run_until"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/debug/state": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * State
         * @description Return the state of the run.
         */
        get: operations["state"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/debug/step": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Step
         * @description Run N steps (1), then pause again. The run must be paused.
         */
        post: operations["step"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/debug/step_data/force_detail": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Force Detail
         * @description One row's change by the last shown step: combined = grad_delta + som_delta.
         */
        get: operations["force_detail"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/debug/step_data/keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Step Data Keys
         * @description The keys of the step data, with the panel of each.
         */
        get: operations["step_data_keys"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/debug/step_data/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Step Data
         * @description One entry of the step data.
         */
        get: operations["step_data"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/debug/stop": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Stop
         * @description End the training at its next step boundary.
         */
        post: operations["stop"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/debug/streams/{stream}/subscriptions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Put Subscriptions
         * @description Name what a stream shows; the run captures only that, and no more when the stream ends.
         *
         *     Also allowed with a viewer token and on a read-only server: it changes no training state.
         */
        put: operations["put_subscriptions"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/debug/together": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Together
         * @description The responses to several GET requests, in their order, each as if it were sent alone.
         *
         *     The first line is a JSON list with `status` and number of `bytes` of each; all bodies follow
         *     without separators.
         */
        get: operations["together"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/debug/trajectories": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Trajectories
         * @description Points of every watched row, also of rows that are no longer watched.
         *
         *     A series with more than `points` points, or more than its share of 200,000 points over all
         *     series, is thinned evenly; its first and last points and its extremes stay. As safetensors:
         *     columns, up to 4,000,000 points.
         */
        get: operations["trajectories"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/debug/trajectories/clear": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Clear Trajectories
         * @description Delete all points. The rows stay watched.
         */
        post: operations["clear_trajectories"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/debug/watch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Watches
         * @description Which rows are watched, and which sources have rows to watch.
         */
        get: operations["watches"];
        put?: never;
        /**
         * Replace Watches
         * @description Replace the watched rows of a source. Points of the other rows stay until cleared.
         */
        post: operations["replace_watches"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/end": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * End Run
         * @description Send a signal to the process of a run that does not react to debug/stop.
         */
        post: operations["end_run"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Events
         * @description Lifecycle records and interventions, in order.
         */
        get: operations["events"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/evidence": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Evidence
         * @description Where the run stopped and why, and what was kept of each stop and of its end.
         */
        get: operations["evidence"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/files": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Files
         * @description Every file of the run directory; links are counted, not listed.
         */
        get: operations["files"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/files/{file_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * File Content
         * @description One file: a picture as a picture, any other file as bytes to save.
         */
        get: operations["file_content"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/lineage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Lineage
         * @description The timelines of the run, the run it was forked from, and the runs forked from it.
         */
        get: operations["lineage"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/media": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Media List
         * @description The names under which pictures, texts, histograms and tables were logged, with the steps.
         */
        get: operations["media_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/media/{group_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Media Group
         * @description What is kept under one name, with all histograms and what is known of the others.
         */
        get: operations["media_group"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/media/{group_id}/{number}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Media Content
         * @description A text or a table.
         */
        get: operations["media_content"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/media/{group_id}/{number}/picture": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Media Picture
         * @description A picture as PNG.
         */
        get: operations["media_picture"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run_id}/scalars": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Scalars
         * @description Series of the run: exact points, or min/max buckets if there are more than `points`.
         */
        get: operations["scalars"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/scripts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Script List
         * @description The scripts that can be started by id.
         */
        get: operations["script_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/scripts/{script_id}/runs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Start Script
         * @description Start a script as `midstep run` does. Answers once its run exists: at its first step.
         */
        post: operations["start_script"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Stream
         * @description Messages from now on, or all after `Last-Event-ID` without a gap or a repetition.
         *
         *     Under `midstep serve`, without a run: changes of the list (`runs`).
         */
        get: operations["stream"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sweeps": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Sweep List
         * @description The sweeps under the outputs folder, the newest first.
         */
        get: operations["sweep_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sweeps/{sweep_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Sweep
         * @description One sweep: axes, cells with their states and values, effects of the axes.
         */
        get: operations["sweep"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sweeps/{sweep_id}/cells/{job}/stop": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Stop Sweep Cell
         * @description Stop one cell in order; the others continue.
         */
        post: operations["stop_sweep_cell"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sweeps/{sweep_id}/start": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Start Sweep
         * @description Run the open cells in a process that outlives this server.
         */
        post: operations["start_sweep"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sweeps/{sweep_id}/stop": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Stop Sweep
         * @description Stop the sweep in order: its cells take a checkpoint and can be resumed.
         */
        post: operations["stop_sweep"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/debug/back": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Back
         * @description Go back N steps (1), or to a step. The run must be paused.
         */
        post: operations["short_back"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/debug/batch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Batch
         * @description The last captured batch without its picture; as safetensors all of it, at full resolution.
         *
         *     A request for what no stream shows leases it for 5 s; the first answer waits for the end of the
         *     step in progress, at most 2 s.
         */
        get: operations["short_batch"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/debug/batch/picture": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Batch Picture
         * @description The picture of the shown samples; a pixel with alpha 0 has a value that is not finite.
         */
        get: operations["short_batch_picture"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/debug/batch/sample": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Batch Sample
         * @description One sample at full resolution. The whole batch is leased for 5 s.
         *
         *     The PNG of an image sequence has all its images, as `grid` describes it.
         */
        get: operations["short_batch_sample"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/debug/breakpoints": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Breakpoints
         * @description All breakpoints with the hits of each so far.
         */
        get: operations["short_breakpoints"];
        put?: never;
        /**
         * Add Breakpoint
         * @description Add a breakpoint, which is checked from the next step boundary on.
         */
        post: operations["short_add_breakpoint"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/debug/breakpoints/{breakpoint_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Remove Breakpoint
         * @description Remove a breakpoint.
         */
        delete: operations["short_remove_breakpoint"];
        options?: never;
        head?: never;
        /**
         * Switch Breakpoint
         * @description Switch a breakpoint on or off, or set its action. Its hits stay.
         */
        patch: operations["short_switch_breakpoint"];
        trace?: never;
    };
    "/debug/cosine_matrix": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Cosine Matrix
         * @description Cosines of all pairs of rows: of weights, their targets, or the change by the gradient.
         *
         *     Above 512 rows a cell is the mean over a block, unless `full` is given; the statistics are
         *     always those of all pairs. As safetensors: `matrix` and `permutation`.
         */
        get: operations["short_cosine_matrix"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/debug/diagnosis": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Diagnosis
         * @description Where the last stop came from, and the error of a failed run; also of a stored run.
         *
         *     It stays after the run continues; `step` and `timeline` say which stop it is about. A view-only
         *     link gets no traceback.
         */
        get: operations["short_diagnosis"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/debug/forces": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Forces
         * @description Both forces on every row in the last shown step, and whether they agree or fight.
         *
         *     If only the gradient moves the tensor, the second force is 0 and every row is neutral.
         */
        get: operations["short_forces"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/debug/pause": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Pause
         * @description Pause the run at its next step boundary.
         */
        post: operations["short_pause"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/debug/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Resume
         * @description Continue the run.
         */
        post: operations["short_resume"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/debug/rewind": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Rewind
         * @description Return how far back the run can go, and what that costs.
         */
        get: operations["short_rewind"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/debug/rules": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Rules
         * @description The rules that can be added as breakpoints, with their limits and explanations.
         */
        get: operations["short_rules"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/debug/run_until": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Run Until
         * @description Continue the run, and pause when STEP steps are finished.
         */
        post: operations["short_run_until"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/debug/state": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * State
         * @description Return the state of the run.
         */
        get: operations["short_state"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/debug/step": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Step
         * @description Run N steps (1), then pause again. The run must be paused.
         */
        post: operations["short_step"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/debug/step_data/force_detail": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Force Detail
         * @description One row's change by the last shown step: combined = grad_delta + som_delta.
         */
        get: operations["short_force_detail"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/debug/step_data/keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Step Data Keys
         * @description The keys of the step data, with the panel of each.
         */
        get: operations["short_step_data_keys"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/debug/step_data/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Step Data
         * @description One entry of the step data.
         */
        get: operations["short_step_data"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/debug/stop": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Stop
         * @description End the training at its next step boundary.
         */
        post: operations["short_stop"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/debug/streams/{stream}/subscriptions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Put Subscriptions
         * @description Name what a stream shows; the run captures only that, and no more when the stream ends.
         *
         *     Also allowed with a viewer token and on a read-only server: it changes no training state.
         */
        put: operations["short_put_subscriptions"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/debug/together": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Together
         * @description The responses to several GET requests, in their order, each as if it were sent alone.
         *
         *     The first line is a JSON list with `status` and number of `bytes` of each; all bodies follow
         *     without separators.
         */
        get: operations["short_together"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/debug/trajectories": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Trajectories
         * @description Points of every watched row, also of rows that are no longer watched.
         *
         *     A series with more than `points` points, or more than its share of 200,000 points over all
         *     series, is thinned evenly; its first and last points and its extremes stay. As safetensors:
         *     columns, up to 4,000,000 points.
         */
        get: operations["short_trajectories"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/debug/trajectories/clear": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Clear Trajectories
         * @description Delete all points. The rows stay watched.
         */
        post: operations["short_clear_trajectories"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/debug/watch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Watches
         * @description Which rows are watched, and which sources have rows to watch.
         */
        get: operations["short_watches"];
        put?: never;
        /**
         * Replace Watches
         * @description Replace the watched rows of a source. Points of the other rows stay until cleared.
         */
        post: operations["short_replace_watches"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /**
         * AnyCommandIn
         * @description Any command by its name, also one that a plug-in registered.
         */
        AnyCommandIn: {
            /** Command */
            command: string;
            /** Id */
            id?: string | null;
            /** Payload */
            payload?: {
                [key: string]: unknown;
            };
        };
        /**
         * AuditExample
         * @description Two rows of two splits that are equal or nearly equal.
         */
        AuditExample: {
            /** Kind */
            kind: string | null;
            /** Row A */
            row_a: number;
            /** Row B */
            row_b: number;
            /** Similarity */
            similarity: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Split A */
            split_a: string;
            /** Split B */
            split_b: string;
            /** Text */
            text: string | null;
        };
        /**
         * AuditLevel
         * @description Leaks of one level of the audit.
         */
        AuditLevel: {
            /** Examples */
            examples: components["schemas"]["AuditExample"][];
            /** Leaks */
            leaks: number;
            /** Threshold */
            threshold: number | ("NaN" | "Infinity" | "-Infinity") | null;
        };
        /**
         * AuditOut
         * @description The builder's report on leaks between splits.
         */
        AuditOut: {
            /** Clean */
            clean: boolean;
            /** Levels */
            levels: {
                [key: string]: components["schemas"]["AuditLevel"];
            };
        };
        /**
         * BackCommandIn
         * @description Go back N steps (1), or to a step. The run must be paused.
         */
        BackCommandIn: {
            /**
             * Command
             * @constant
             */
            command: "back";
            /** Id */
            id?: string | null;
            payload?: components["schemas"]["BackPayload"];
        };
        /**
         * BackIn
         * @description Go back N steps (1), or to a step. The run must be paused.
         */
        BackIn: {
            /** Id */
            id?: string | null;
            /**
             * N
             * @description Number of steps to go back.
             */
            n?: number | null;
            /**
             * Step
             * @description Go back to this step.
             */
            step?: number | null;
        };
        /** BackPayload */
        BackPayload: {
            /**
             * N
             * @description Number of steps to go back.
             */
            n?: number | null;
            /**
             * Step
             * @description Go back to this step.
             */
            step?: number | null;
        };
        /**
         * BadInputOut
         * @description The values of one sample that are not finite.
         */
        BadInputOut: {
            /** Bad */
            bad: number;
            /** Field */
            field: string;
            /** High */
            high: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Low */
            low: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Of */
            of: number;
            /** Position */
            position: number;
            /** Sample */
            sample: number | null;
            /** What */
            what: string;
            /** Where */
            where: string;
        };
        /**
         * BatchOut
         * @description The last captured batch: everything but its picture, at most 300 kB.
         */
        BatchOut: {
            /** Columns */
            columns: components["schemas"]["ColumnOut"][] | null;
            /** Count */
            count: number;
            /** Dtype */
            dtype: string;
            /** Etag */
            etag: string;
            /** First */
            first: number;
            frames: components["schemas"]["FramesOut"] | null;
            grid: components["schemas"]["GridOut"] | null;
            /**
             * Kind
             * @enum {string}
             */
            kind: "images" | "image_mask" | "frames" | "text" | "tokens" | "table" | "vectors" | "audio" | "series" | "nested" | "other";
            /** Labels */
            labels: (number | ("NaN" | "Infinity" | "-Infinity") | string)[] | null;
            lines: components["schemas"]["LinesOut"] | null;
            /** Loss */
            loss: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Loss Fact */
            loss_fact: string | null;
            /** Loss Note */
            loss_note: string | null;
            /** Loss Shares */
            loss_shares: (number | ("NaN" | "Infinity" | "-Infinity"))[] | null;
            /** Losses */
            losses: (number | ("NaN" | "Infinity" | "-Infinity"))[] | null;
            mask: components["schemas"]["MaskOut"] | null;
            /** Nonfinite */
            nonfinite: number;
            /** Nonfinite In */
            nonfinite_in: number[] | null;
            /** Note */
            note: string | null;
            /** Png */
            png: string | null;
            /** Predictions */
            predictions: (number | ("NaN" | "Infinity" | "-Infinity") | string)[] | null;
            /** Probabilities */
            probabilities: (number | ("NaN" | "Infinity" | "-Infinity"))[] | null;
            /** Rows */
            rows: (number | ("NaN" | "Infinity" | "-Infinity"))[][] | null;
            /** Sample Ids */
            sample_ids: number[] | null;
            /** Sample Rate */
            sample_rate: number | null;
            /** Shape */
            shape: number[];
            /** Shown */
            shown: number;
            /** Step */
            step: number;
            /** Texts */
            texts: string[] | null;
        };
        /**
         * BatchSubscription
         * @description Samples of the batch, reduced to tiles.
         */
        BatchSubscription: {
            /**
             * Count
             * @default 64
             */
            count: number;
            /**
             * First
             * @default 0
             */
            first: number;
            /** Id */
            id: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "batch";
        };
        /**
         * BreakpointIn
         * @description A new breakpoint.
         */
        BreakpointIn: {
            /**
             * Action
             * @default pause
             * @enum {string}
             */
            action: "pause" | "mark";
            /** Condition */
            condition: components["schemas"]["StepCondition"] | components["schemas"]["EveryCondition"] | components["schemas"]["NonFiniteCondition"] | components["schemas"]["LossZCondition"] | components["schemas"]["GradNormCondition"] | components["schemas"]["MetricCondition"] | components["schemas"]["SampleCondition"] | components["schemas"]["ExpressionCondition"] | components["schemas"]["RuleCondition"];
            /**
             * Enabled
             * @default true
             */
            enabled: boolean;
        };
        /**
         * BreakpointOut
         * @description A breakpoint with its hits so far.
         */
        BreakpointOut: {
            /**
             * Action
             * @enum {string}
             */
            action: "pause" | "mark";
            /** Condition */
            condition: components["schemas"]["StepCondition"] | components["schemas"]["EveryCondition"] | components["schemas"]["NonFiniteCondition"] | components["schemas"]["LossZCondition"] | components["schemas"]["GradNormCondition"] | components["schemas"]["MetricCondition"] | components["schemas"]["SampleCondition"] | components["schemas"]["ExpressionCondition"] | components["schemas"]["RuleCondition"];
            /** Cost S */
            cost_s: number | null;
            /** Costs Sync */
            costs_sync: boolean;
            /** Enabled */
            enabled: boolean;
            /** Hit Steps */
            hit_steps: number[];
            /** Hits */
            hits: number;
            /** Id */
            id: number;
            /** Mean */
            mean: number | null;
            /** Missing */
            missing: string[];
            /** Std */
            std: number | null;
            /** Window */
            window: number | null;
            /** Words */
            words: string;
        };
        /**
         * BreakpointPatch
         * @description Switch a breakpoint on or off, or set whether a hit pauses the run or only marks it.
         */
        BreakpointPatch: {
            /** Action */
            action?: ("pause" | "mark") | null;
            /** Enabled */
            enabled?: boolean | null;
        };
        /**
         * BreakpointsMessage
         * @description The list of breakpoints changed. Volatile.
         */
        BreakpointsMessage: {
            /** Breakpoints */
            breakpoints: components["schemas"]["BreakpointOut"][];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "breakpoints";
        };
        /**
         * CaptureMessage
         * @description Something that this stream has subscribed to can be read. Volatile, the newest of each id.
         */
        CaptureMessage: {
            /** Bytes */
            bytes: number;
            /** Etag */
            etag: string;
            /** Id */
            id: string;
            /** Step */
            step: number;
            thinning: components["schemas"]["ThinningOut"] | null;
            /** Timeline */
            timeline: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "capture";
        };
        /**
         * ChangeOut
         * @description One thing that is compared over the last steps.
         */
        ChangeOut: {
            /** After */
            after: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Before */
            before: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Is Cause */
            is_cause: boolean;
            /** Key */
            key: string;
            /** Line */
            line: (number | ("NaN" | "Infinity" | "-Infinity") | null)[];
            /** Reading */
            reading: string;
            /** Step */
            step: number | null;
            /** What */
            what: string;
        };
        /**
         * ClassOut
         * @description A class of a mask.
         */
        ClassOut: {
            /** Id */
            id: number;
            /** Name */
            name: string;
            /** Share */
            share: number;
        };
        /**
         * ClusterOut
         * @description A cluster and its pairs.
         */
        ClusterOut: {
            /** Cluster */
            cluster: number;
            /** Mean Distance */
            mean_distance: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Pairs */
            pairs: {
                [key: string]: number;
            };
        };
        /**
         * ColumnOut
         * @description One value for each sample.
         */
        ColumnOut: {
            /** Cells */
            cells: (number | ("NaN" | "Infinity" | "-Infinity") | string)[];
            /** Name */
            name: string;
            /**
             * Role
             * @enum {string}
             */
            role: "input" | "target";
        };
        /** CommandIn */
        CommandIn: components["schemas"]["PauseCommandIn"] | components["schemas"]["StepCommandIn"] | components["schemas"]["BackCommandIn"] | components["schemas"]["ResumeCommandIn"] | components["schemas"]["RunUntilCommandIn"] | components["schemas"]["StopCommandIn"] | components["schemas"]["SetHparamsCommandIn"] | components["schemas"]["SaveCheckpointCommandIn"] | components["schemas"]["LoadCheckpointCommandIn"] | components["schemas"]["ResetSessionCommandIn"] | components["schemas"]["DeterminismHealthCommandIn"] | components["schemas"]["TestNowCommandIn"] | components["schemas"]["InfluenceCommandIn"] | components["schemas"]["AnyCommandIn"];
        /**
         * CommandMessage
         * @description A command changed its status. Volatile; its end is also an `event`.
         */
        CommandMessage: {
            command: components["schemas"]["CommandOut"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "command";
        };
        /**
         * CommandOut
         * @description One line of the command log.
         */
        CommandOut: {
            /** Command */
            command: string;
            /** Duration S */
            duration_s: number | null;
            /** Id */
            id: string;
            /** Nonfinite */
            nonfinite?: string[];
            /** Payload */
            payload: {
                [key: string]: unknown;
            };
            /** Progress */
            progress: number | null;
            /** Reason */
            reason: string | null;
            /** Result */
            result: unknown;
            /** Seq */
            seq: number;
            /**
             * Status
             * @enum {string}
             */
            status: "pending" | "running" | "done" | "failed" | "refused";
            /** Step */
            step: number | null;
            /** Submitted At */
            submitted_at: number;
            /**
             * Who
             * @enum {string}
             */
            who: "page" | "cli" | "terminal" | "python" | "breakpoint" | "system";
        };
        /**
         * ConsoleOut
         * @description A part of what a run printed. Of a long output the middle is not kept.
         */
        ConsoleOut: {
            /** End */
            end: number;
            /** Line */
            line: number | null;
            /**
             * Of
             * @constant
             */
            of: "python";
            /** Size */
            size: number;
            /** Start */
            start: number;
            /** Text */
            text: string;
        };
        /**
         * CosineMatrixOut
         * @description Cosines of all pairs of rows.
         */
        CosineMatrixOut: {
            /** Averaged */
            averaged: boolean;
            /** Labels */
            labels: string[];
            /** Matrix */
            matrix: (number | ("NaN" | "Infinity" | "-Infinity"))[][];
            /** Max Offdiag */
            max_offdiag: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Mean Offdiag */
            mean_offdiag: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Note */
            note: string | null;
            /** Order */
            order: string;
            /** Permutation */
            permutation: number[];
            /** Rows */
            rows: number;
            /**
             * Source
             * @enum {string}
             */
            source: "weights" | "som_targets" | "grad_delta";
            /** Std Offdiag */
            std_offdiag: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Step */
            step: number;
            /** Tensor */
            tensor: string;
        };
        /**
         * CurriculumOut
         * @description All schedules, the one of the dataset first.
         */
        CurriculumOut: {
            /** Epochs */
            epochs: number;
            /** Schedules */
            schedules: components["schemas"]["ScheduleOut"][];
            /** Variants */
            variants: string[];
        };
        /**
         * CurveOut
         * @description One series of one run: exact points, or min/max buckets when there were too many.
         */
        CurveOut: {
            /** Count */
            count: number;
            /** Exact */
            exact: boolean;
            /** High */
            high: (number | ("NaN" | "Infinity" | "-Infinity"))[];
            /** Low */
            low: (number | ("NaN" | "Infinity" | "-Infinity"))[];
            /** X */
            x: (number | ("NaN" | "Infinity" | "-Infinity"))[];
        };
        /**
         * CurvesOut
         * @description One series of several runs; runs without it are left out.
         */
        CurvesOut: {
            /** Curves */
            curves: {
                [key: string]: components["schemas"]["CurveOut"];
            };
            /** Name */
            name: string;
            /**
             * X
             * @enum {string}
             */
            x: "step" | "epoch" | "time";
        };
        /**
         * DataFileList
         * @description The files that recipes can train on.
         */
        DataFileList: {
            /** Files */
            files: components["schemas"]["DataFileOut"][];
        };
        /**
         * DataFileOut
         * @description A file of the server's data folders that a recipe can train on.
         */
        DataFileOut: {
            /** Bytes */
            bytes: number;
            /** Id */
            id: string;
            /** Name */
            name: string;
        };
        /**
         * DatasetAuditOut
         * @description Audit and ledger; null if the dataset has none or it cannot be read.
         */
        DatasetAuditOut: {
            audit: components["schemas"]["AuditOut"] | null;
            /** Audit Problem */
            audit_problem: string | null;
            ledger: components["schemas"]["LedgerOut"] | null;
            /** Ledger Problem */
            ledger_problem: string | null;
        };
        /**
         * DatasetCounts
         * @description Lengths of the tables, from config.json.
         */
        DatasetCounts: {
            /** Clusters */
            clusters: number;
            /** Dimension */
            dimension: number;
            /** Keywords */
            keywords: number;
            /** Negatives */
            negatives: number;
            /** Pairs */
            pairs: number;
            /** Questions */
            questions: number;
            /** Sources */
            sources: number;
        };
        /**
         * DatasetListOut
         * @description Datasets in the folders of `--data`, newest first.
         */
        DatasetListOut: {
            /** Datasets */
            datasets: components["schemas"]["DatasetSummary"][];
            /** Roots */
            roots: number;
            /** Total */
            total: number;
        };
        /**
         * DatasetMapOut
         * @description Centroids and a sample of questions, on the plane of largest variance of the questions.
         */
        DatasetMapOut: {
            centroids: components["schemas"]["MapPoints"];
            /** Of */
            of: number;
            questions: components["schemas"]["MapQuestions"];
            /** Shares */
            shares: (number | ("NaN" | "Infinity" | "-Infinity"))[];
        };
        /**
         * DatasetOut
         * @description One dataset.
         */
        DatasetOut: {
            /** Clusters */
            clusters: components["schemas"]["ClusterOut"][];
            counts: components["schemas"]["DatasetCounts"];
            /** Curriculum */
            curriculum: {
                [key: string]: unknown;
            };
            /** Encoder */
            encoder: string | null;
            /** Form */
            form: string;
            /** Has Audit */
            has_audit: boolean;
            /** Has Ledger */
            has_ledger: boolean;
            /** Has Texts */
            has_texts: boolean;
            /** Id */
            id: string;
            /** Made At */
            made_at: number;
            /** Name */
            name: string;
            /** Seed */
            seed: number;
            /** Size Bytes */
            size_bytes: number;
            /** Splits */
            splits: {
                [key: string]: number;
            };
            /** Steering Definition */
            steering_definition: string;
            /** Steering Probabilities */
            steering_probabilities: {
                [key: string]: number | ("NaN" | "Infinity" | "-Infinity");
            };
            /** Tiers */
            tiers: {
                [key: string]: number;
            };
            /** Tiers Of */
            tiers_of: number;
        };
        /**
         * DatasetSummary
         * @description One dataset in the list.
         */
        DatasetSummary: {
            counts: components["schemas"]["DatasetCounts"] | null;
            /** Form */
            form: string | null;
            /** Id */
            id: string;
            /** Made At */
            made_at: number;
            /** Name */
            name: string;
            /** Problem */
            problem: string | null;
            /** Schedule */
            schedule: string | null;
            /** Size Bytes */
            size_bytes: number;
            /**
             * State
             * @enum {string}
             */
            state: "ready" | "damaged";
        };
        /**
         * DeleteIn
         * @description The name of the run's directory, as confirmation of the deletion.
         */
        DeleteIn: {
            /** Confirm */
            confirm: string;
        };
        /**
         * DeletedOut
         * @description What was deleted and what was kept.
         */
        DeletedOut: {
            /** Kept */
            kept: string[];
            /** Removed Bytes */
            removed_bytes: number;
            /** Removed Files */
            removed_files: number;
        };
        /**
         * DeterminismHealthCommandIn
         * @description Run STEPS steps twice and compare every bit. The run must be paused, and stays there.
         */
        DeterminismHealthCommandIn: {
            /**
             * Command
             * @enum {string}
             */
            command: "determinism_health" | "reportDeterminism";
            /** Id */
            id?: string | null;
            payload?: components["schemas"]["DeterminismHealthPayload"];
        };
        /** DeterminismHealthPayload */
        DeterminismHealthPayload: {
            /**
             * Steps
             * @description Number of steps to run twice.
             * @default 2
             */
            steps: number;
        };
        /**
         * DiagnosisOut
         * @description Where a stop came from, found after it on copies.
         */
        DiagnosisOut: {
            /** Batch Size */
            batch_size: number;
            /** Broken Samples */
            broken_samples: number;
            /** Broken Weights */
            broken_weights: number;
            /** Cause */
            cause: string | null;
            /** Changes */
            changes: components["schemas"]["ChangeOut"][];
            /** Has Ids */
            has_ids: boolean;
            /** Inputs */
            inputs: components["schemas"]["BadInputOut"][];
            /** Layers */
            layers: components["schemas"]["LayerOut"][];
            /** Notes */
            notes: string[];
            origin: components["schemas"]["OriginOut"] | null;
            pictures: components["schemas"]["PicturesOut"] | null;
            /** Positions */
            positions: number[];
            /** Samples */
            samples: number[];
            /** Step */
            step: number;
            /** Steps */
            steps: number[];
            /** Timeline */
            timeline: number;
            /** Title */
            title: string;
            /** Took S */
            took_s: number | ("NaN" | "Infinity" | "-Infinity");
            /** Weights */
            weights: number;
            /** Weights Exact */
            weights_exact: boolean;
            /** Weights Step */
            weights_step: number | null;
        };
        /**
         * EndIn
         * @description How to end a process that does not react to a stop.
         */
        EndIn: {
            /**
             * How
             * @enum {string}
             */
            how: "terminate" | "kill";
        };
        /**
         * EndOut
         * @description The signal that was sent.
         */
        EndOut: {
            /**
             * How
             * @enum {string}
             */
            how: "terminate" | "kill";
            /** Id */
            id: string;
        };
        /**
         * EventMessage
         * @description A lifecycle record or an intervention. Durable.
         */
        EventMessage: {
            /** Record */
            record: {
                [key: string]: unknown;
            };
            /** Seq */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "event";
        };
        /**
         * EventsOut
         * @description Lifecycle records in order.
         */
        EventsOut: {
            /** Events */
            events: {
                [key: string]: unknown;
            }[];
            /** More */
            more: boolean;
            /** Seq */
            seq: number;
        };
        /**
         * EveryCondition
         * @description Pause every n steps.
         */
        EveryCondition: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "every";
            /** N */
            n: number;
        };
        /**
         * Evidence
         * @description Why a breakpoint was hit.
         */
        Evidence: {
            /**
             * Action
             * @default pause
             * @enum {string}
             */
            action: "pause" | "mark";
            /** Breakpoint */
            breakpoint: number;
            /** Cause */
            cause: string | null;
            /** Condition */
            condition: string;
            explanation: components["schemas"]["ExplanationOut"] | null;
            /** Layer */
            layer: string | null;
            /** Limit */
            limit: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Note */
            note: string | null;
            /**
             * Positions
             * @default []
             */
            positions: number[];
            /** Rule */
            rule: string | null;
            /** Samples */
            samples: number[];
            /** Step */
            step: number;
            /** Title */
            title: string | null;
            /** Value */
            value: number | ("NaN" | "Infinity" | "-Infinity") | null;
        };
        /**
         * EvidenceOut
         * @description What was kept of a run besides its facts.
         */
        EvidenceOut: {
            /** Bytes */
            bytes: number;
            /** Checkpoints */
            checkpoints: components["schemas"]["KeptCheckpoint"][];
            /** Console Bytes */
            console_bytes: number;
            end: components["schemas"]["KeptStopOut"] | null;
            /** Shown */
            shown: string | null;
            /** Stops */
            stops: components["schemas"]["KeptStopOut"][];
        };
        /**
         * ExplanationOut
         * @description A rule's finding in words.
         */
        ExplanationOut: {
            /** Advice */
            advice: string[];
            /** Causes */
            causes: string[];
            /** Means */
            means: string;
            /** Title */
            title: string;
        };
        /**
         * ExpressionCondition
         * @description Pause when an expression over the scalars of the step is true.
         */
        ExpressionCondition: {
            /** Expression */
            expression: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "expression";
        };
        /**
         * FailureOut
         * @description The error that ended the run.
         */
        FailureOut: {
            /** Error */
            error: string;
            /** Step */
            step: number | null;
            /** Traceback */
            traceback: string | null;
        };
        /**
         * FieldOut
         * @description How one column is formatted.
         */
        FieldOut: {
            /** Label */
            label: string | null;
            /** Precision */
            precision: number | null;
            /** Unit */
            unit: string | null;
        };
        /**
         * FileOut
         * @description One file of a run directory.
         */
        FileOut: {
            /** Bytes */
            bytes: number;
            /** Id */
            id: string;
            /**
             * Kind
             * @enum {string}
             */
            kind: "facts" | "checkpoint" | "figure" | "artifact" | "console" | "config" | "other";
            /** Modified At */
            modified_at: number;
            /** Own */
            own: boolean;
            /** Path */
            path: string;
        };
        /**
         * FilesOut
         * @description The files of a run directory, links left out.
         */
        FilesOut: {
            /** Bytes */
            bytes: number;
            /** Files */
            files: components["schemas"]["FileOut"][];
            /** Foreign */
            foreign: number;
            /** Own Bytes */
            own_bytes: number;
        };
        /**
         * ForceDetailOut
         * @description The change of one row by one step, in its two parts; each list has the row's length.
         */
        ForceDetailOut: {
            /** Combined */
            combined: (number | ("NaN" | "Infinity" | "-Infinity"))[];
            /** Cos Grad Som */
            cos_grad_som: number | ("NaN" | "Infinity" | "-Infinity");
            /** Current Weight */
            current_weight: (number | ("NaN" | "Infinity" | "-Infinity"))[];
            /** Feature */
            feature: number;
            /** Grad Delta */
            grad_delta: (number | ("NaN" | "Infinity" | "-Infinity"))[];
            /** Row Shape */
            row_shape: number[];
            /** Som Delta */
            som_delta: (number | ("NaN" | "Infinity" | "-Infinity"))[];
            /** Step */
            step: number;
            /** Tensor */
            tensor: string;
        };
        /**
         * ForceThresholds
         * @description Limits below which a row counts as neutral.
         */
        ForceThresholds: {
            /** Cos */
            cos: number;
            /** Grad Magnitude */
            grad_magnitude: number | ("NaN" | "Infinity" | "-Infinity");
            /** Share Of Median */
            share_of_median: number;
            /** Som Magnitude */
            som_magnitude: number | ("NaN" | "Infinity" | "-Infinity");
        };
        /**
         * ForcesOut
         * @description Both forces on every row of a tensor in the last shown step.
         */
        ForcesOut: {
            /** Agree */
            agree: number;
            /** Features */
            features: {
                [key: string]: (number | ("NaN" | "Infinity" | "-Infinity") | ("agree" | "fight" | "neutral"))[];
            };
            /** Fight */
            fight: number;
            /** Neutral */
            neutral: number;
            /** Note */
            note: string | null;
            /** Rows */
            rows: number;
            /** Step */
            step: number;
            /** Tensor */
            tensor: string;
            /** Tensors */
            tensors: string[];
            thresholds: components["schemas"]["ForceThresholds"];
        };
        /**
         * FramesOut
         * @description Images of one sample, of which the picture of the batch has the first.
         */
        FramesOut: {
            /** Count */
            count: number;
            /**
             * Word
             * @enum {string}
             */
            word: "frame" | "channel";
        };
        /**
         * GradNormCondition
         * @description Pause when the gradient norm is above a limit.
         */
        GradNormCondition: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "grad_norm";
            /** Limit */
            limit: number;
        };
        /**
         * GridOut
         * @description How to cut the picture into tiles: tile i is at column i % columns, row i // columns.
         */
        GridOut: {
            /** Channels */
            channels: number;
            /** Columns */
            columns: number;
            /** Full Height */
            full_height: number;
            /** Full Width */
            full_width: number;
            /** High */
            high: number | ("NaN" | "Infinity" | "-Infinity");
            /** Low */
            low: number | ("NaN" | "Infinity" | "-Infinity");
            /** Rows */
            rows: number;
            /** Stride */
            stride: number;
            /** Tile Height */
            tile_height: number;
            /** Tile Width */
            tile_width: number;
        };
        /**
         * GroupOut
         * @description Runs with the same value of the grouping key.
         */
        GroupOut: {
            /** Count */
            count: number;
            /** Summary */
            summary: {
                [key: string]: components["schemas"]["SpreadOut"];
            };
            /** Value */
            value: number | string | boolean | null;
        };
        /**
         * Health
         * @description The response of the health route, which needs no token.
         */
        Health: {
            /** Proofs */
            proofs: string[];
            /**
             * Status
             * @default ok
             * @constant
             */
            status: "ok";
            /** Version */
            version: string;
        };
        /**
         * HelloMessage
         * @description First message of every connection; `resumed`: it continues after the given event id.
         */
        HelloMessage: {
            /** Breakpoints */
            breakpoints: components["schemas"]["BreakpointOut"][];
            /** Can Control */
            can_control: boolean;
            /** Captures */
            captures: boolean;
            /** Resumed */
            resumed: boolean;
            /** Run */
            run: string;
            /** Seq */
            seq: number;
            state: components["schemas"]["StateOut"];
            /** Stream */
            stream: string;
            /** Timeline */
            timeline: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "hello";
            /** Version */
            version: string;
        };
        /**
         * HistogramOut
         * @description Counts of values in equal bins.
         */
        HistogramOut: {
            /** Counted */
            counted: number;
            /** Counts */
            counts: number[];
            /** High */
            high: number;
            /** Low */
            low: number;
            /** Mean */
            mean: number | null;
            /** Nonfinite */
            nonfinite: number;
            /** Values */
            values: number;
        };
        /**
         * InfluenceAfter
         * @description Prediction and what the training itself did.
         */
        InfluenceAfter: {
            /** Actual */
            actual: (number | ("NaN" | "Infinity" | "-Infinity"))[];
            /** Checkpoint */
            checkpoint: string;
            /** Correlation */
            correlation: number | ("NaN" | "Infinity" | "-Infinity");
            /** Predicted */
            predicted: (number | ("NaN" | "Infinity" | "-Infinity"))[];
            /** Relative Error */
            relative_error: number | ("NaN" | "Infinity" | "-Infinity");
        };
        /**
         * InfluenceCommandIn
         * @description Show which samples of the last batch changed which sample's loss.
         */
        InfluenceCommandIn: {
            /**
             * Command
             * @constant
             */
            command: "influence";
            /** Id */
            id?: string | null;
            payload?: components["schemas"]["InfluencePayload"];
        };
        /**
         * InfluenceContributor
         * @description A sequence of the update that moved an evaluated sequence.
         */
        InfluenceContributor: {
            /** Advantage */
            advantage: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Contribution */
            contribution: number | ("NaN" | "Infinity" | "-Infinity");
            /** Cosine */
            cosine: number | ("NaN" | "Infinity" | "-Infinity");
            /** Kernel */
            kernel: number | ("NaN" | "Infinity" | "-Infinity");
            /** Sequence Id */
            sequence_id: string;
        };
        /**
         * InfluenceDelta
         * @description Predicted change of a log-probability in nats, and its terms.
         */
        InfluenceDelta: {
            /** Decay */
            decay: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Kernel */
            kernel: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Momentum */
            momentum: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Total */
            total: number | ("NaN" | "Infinity" | "-Infinity");
        };
        /**
         * InfluenceEvaluatedSequence
         * @description A sequence whose log-probability the update moved.
         */
        InfluenceEvaluatedSequence: {
            /** Contributors */
            contributors: components["schemas"]["InfluenceContributor"][];
            delta: components["schemas"]["InfluenceDelta"];
            /** Entropy */
            entropy: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Global Prompt Id */
            global_prompt_id: string | null;
            /** Logprob */
            logprob: number | ("NaN" | "Infinity" | "-Infinity");
            /** Norm */
            norm: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Prompt */
            prompt: string;
            /** Response */
            response: string;
            /** Reward */
            reward: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Sequence Id */
            sequence_id: string;
        };
        /**
         * InfluenceKernelOut
         * @description K of all pairs: rows are evaluated sequences, columns those of the update.
         */
        InfluenceKernelOut: {
            /** Columns */
            columns: string[];
            /** Kernel */
            kernel: (number | ("NaN" | "Infinity" | "-Infinity"))[][];
            /** Rows */
            rows: string[];
        };
        /**
         * InfluenceListOut
         * @description Stored results, newest first.
         */
        InfluenceListOut: {
            /** Results */
            results: components["schemas"]["InfluenceSummary"][];
            /** Total */
            total: number;
        };
        /**
         * InfluenceOut
         * @description One stored result: the update and its requests.
         */
        InfluenceOut: {
            /** Algorithm */
            algorithm: string;
            /** Checkpoint */
            checkpoint: string;
            /** Coverage */
            coverage: {
                [key: string]: number | ("NaN" | "Infinity" | "-Infinity");
            };
            /** Id */
            id: string;
            /** Made At */
            made_at: number;
            /** Name */
            name: string;
            /** Optimizer Step */
            optimizer_step: number | null;
            /** Preconditioner */
            preconditioner: string;
            /** Requests */
            requests: components["schemas"]["InfluenceRequestSummary"][];
            /** Scheme */
            scheme: string | null;
            step: components["schemas"]["InfluenceStep"];
            /** Update */
            update: components["schemas"]["InfluenceUpdateSequence"][];
            validation: components["schemas"]["InfluenceValidation"] | null;
        };
        /** InfluencePayload */
        InfluencePayload: {
            /**
             * Samples
             * @description Compare this many samples, the first of the batch.
             * @default 64
             */
            samples: number;
        };
        /**
         * InfluenceRate
         * @description Prediction and true step at one learning rate.
         */
        InfluenceRate: {
            /** Actual */
            actual: (number | ("NaN" | "Infinity" | "-Infinity"))[];
            /** Correlation */
            correlation: number | ("NaN" | "Infinity" | "-Infinity");
            /** Lr */
            lr: number | ("NaN" | "Infinity" | "-Infinity");
            /** Predicted */
            predicted: (number | ("NaN" | "Infinity" | "-Infinity"))[];
            /** Relative Error */
            relative_error: number | ("NaN" | "Infinity" | "-Infinity");
        };
        /**
         * InfluenceRequestOut
         * @description The result of one request; `index` is null for the update itself.
         */
        InfluenceRequestOut: {
            /** Has Kernel */
            has_kernel: boolean;
            /** Index */
            index: number | null;
            /** Kind */
            kind: string;
            /** Name */
            name: string;
            /** Result */
            result: string;
            /** Sequences */
            sequences: components["schemas"]["InfluenceEvaluatedSequence"][];
        };
        /**
         * InfluenceRequestSummary
         * @description A batch that was evaluated.
         */
        InfluenceRequestSummary: {
            /** Index */
            index: number;
            /** Kind */
            kind: string;
            /** Name */
            name: string;
            /** Sequences */
            sequences: number;
        };
        /**
         * InfluenceStep
         * @description Numbers of the step that are equal for all sequences: Δ = lr · rate · clip_factor · Σ K w.
         */
        InfluenceStep: {
            /** Clip Factor */
            clip_factor: number | ("NaN" | "Infinity" | "-Infinity");
            /** Gradient Norm */
            gradient_norm: number | ("NaN" | "Infinity" | "-Infinity");
            /** Lr */
            lr: number | ("NaN" | "Infinity" | "-Infinity");
            /** Rate */
            rate: number | ("NaN" | "Infinity" | "-Infinity");
        };
        /**
         * InfluenceSummary
         * @description One stored result in the list.
         */
        InfluenceSummary: {
            /** Evaluated Sequences */
            evaluated_sequences: number | null;
            /** Id */
            id: string;
            /** Made At */
            made_at: number;
            /** Name */
            name: string;
            /** Preconditioner */
            preconditioner: string | null;
            /** Problem */
            problem: string | null;
            /** Requests */
            requests: string[];
            /**
             * State
             * @enum {string}
             */
            state: "finished" | "unfinished" | "damaged";
            /** Step */
            step: number | null;
            /** Update Sequences */
            update_sequences: number | null;
        };
        /**
         * InfluenceUpdateSequence
         * @description A sequence that was trained on.
         */
        InfluenceUpdateSequence: {
            /** Advantage */
            advantage: number | ("NaN" | "Infinity" | "-Infinity") | null;
            delta: components["schemas"]["InfluenceDelta"];
            /** Entropy */
            entropy: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Global Prompt Id */
            global_prompt_id: string | null;
            /** Logprob */
            logprob: number | ("NaN" | "Infinity" | "-Infinity");
            /** Norm */
            norm: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Normaliser */
            normaliser: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Prompt */
            prompt: string;
            /** Response */
            response: string;
            /** Reward */
            reward: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Sequence Id */
            sequence_id: string;
            /** Weight */
            weight: number | ("NaN" | "Infinity" | "-Infinity");
        };
        /**
         * InfluenceValidation
         * @description How exact the prediction was.
         */
        InfluenceValidation: {
            after: components["schemas"]["InfluenceAfter"] | null;
            /** Rates */
            rates: components["schemas"]["InfluenceRate"][];
            /** Sequence Ids */
            sequence_ids: string[];
            /** Slope */
            slope: number | ("NaN" | "Infinity" | "-Infinity") | null;
        };
        /**
         * InfluenceWhatIfOut
         * @description The change under other advantages, without a model pass.
         */
        InfluenceWhatIfOut: {
            /** Advantages */
            advantages: {
                [key: string]: number | ("NaN" | "Infinity" | "-Infinity");
            };
            /** Delta */
            delta: components["schemas"]["InfluenceDelta"][];
            /** Exact */
            exact: boolean;
            /** Note */
            note: string;
            /** Sequence Ids */
            sequence_ids: string[];
            /** Was */
            was: components["schemas"]["InfluenceDelta"][];
        };
        /**
         * KeptCheckpoint
         * @description A checkpoint of a run.
         */
        KeptCheckpoint: {
            /** At */
            at: number;
            /** Best */
            best: boolean;
            /** Bytes */
            bytes: number;
            /** Current */
            current: boolean;
            /** Name */
            name: string;
            /** Step */
            step: number;
            /** Timeline */
            timeline: number;
        };
        /**
         * KeptStopOut
         * @description One stop of a run, or its end.
         */
        KeptStopOut: {
            /** At */
            at: number | null;
            /** Attempt */
            attempt: number | null;
            /** Batch Step */
            batch_step: number | null;
            breakpoint: components["schemas"]["Evidence"] | null;
            /** Bytes */
            bytes: number;
            /**
             * Cause
             * @enum {string}
             */
            cause: "breakpoint" | "pause" | "step" | "run_until" | "back" | "hold" | "finished" | "stopped" | "exception" | "other";
            /** Current */
            current: boolean;
            /** Id */
            id: string;
            /** Kept */
            kept: boolean;
            /** Lasted S */
            lasted_s: number | null;
            /** Not Kept */
            not_kept: {
                [key: string]: string;
            };
            /** Of Samples */
            of_samples: number | null;
            /** Reason */
            reason: string | null;
            /** Samples */
            samples: number | null;
            /** Step */
            step: number;
            /** Step Data */
            step_data: string[];
            /** Timeline */
            timeline: number;
            /** Who */
            who: string | null;
        };
        /**
         * KeySubscription
         * @description Step data of one key, or all of it; or what needs clones of one tensor.
         */
        KeySubscription: {
            /** Id */
            id: string;
            /** Key */
            key?: string | null;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "cosine_matrix" | "forces" | "step_data" | "weights";
        };
        /**
         * LabelsIn
         * @description New tags and note of a run; a field that is left out stays as it is.
         */
        LabelsIn: {
            /** Note */
            note?: string | null;
            /** Tags */
            tags?: string[] | null;
        };
        /**
         * LayerOut
         * @description One row: the input, a module, or the loss.
         */
        LayerOut: {
            /** Bad */
            bad: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Gradient */
            gradient: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Is Broken */
            is_broken: boolean;
            /** Name */
            name: string;
            /**
             * Role
             * @enum {string}
             */
            role: "input" | "module" | "loss";
            /**
             * Status
             * @enum {string}
             */
            status: "source" | "first" | "carries" | "ok";
            /** Weight */
            weight: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Weight Before */
            weight_before: number | ("NaN" | "Infinity" | "-Infinity") | null;
        };
        /**
         * LayersSubscription
         * @description The norms of the layers.
         */
        LayersSubscription: {
            /** Id */
            id: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "layers";
        };
        /**
         * LedgerOut
         * @description Requested and mined negatives of each tier, and the shortages.
         */
        LedgerOut: {
            /** Dropped */
            dropped: number;
            /** Kept */
            kept: number;
            /** Made */
            made: {
                [key: string]: number;
            };
            /** Offset */
            offset: number;
            /** Quotas */
            quotas: {
                [key: string]: number;
            };
            /** Short Pairs */
            short_pairs: number;
            /** Shortages */
            shortages: components["schemas"]["ShortageOut"][];
        };
        /**
         * LevelOut
         * @description A word for the values below or above a limit.
         */
        LevelOut: {
            /** Above */
            above: number | null;
            /** Below */
            below: number | null;
            /**
             * Tone
             * @enum {string}
             */
            tone: "bad" | "warn" | "good" | "neutral";
            /** Word */
            word: string;
        };
        /**
         * LineageOut
         * @description The timelines of a run, its parent and its forks.
         */
        LineageOut: {
            /** Children */
            children: string[];
            /** Parent */
            parent: string | null;
            /** Timelines */
            timelines: components["schemas"]["TimelineOut"][];
        };
        /**
         * LinesOut
         * @description Curves: the smallest and the largest value of each interval, channel after channel.
         */
        LinesOut: {
            /** Channels */
            channels: number;
            /** High */
            high: (number | ("NaN" | "Infinity" | "-Infinity"))[][];
            /** Length */
            length: number;
            /** Low */
            low: (number | ("NaN" | "Infinity" | "-Infinity"))[][];
            /** Points */
            points: number;
        };
        /**
         * LoadCheckpointCommandIn
         * @description Load a checkpoint of this run.
         */
        LoadCheckpointCommandIn: {
            /**
             * Command
             * @enum {string}
             */
            command: "load_checkpoint" | "loadCheckpoint";
            /** Id */
            id?: string | null;
            payload?: components["schemas"]["LoadCheckpointPayload"];
        };
        /** LoadCheckpointPayload */
        LoadCheckpointPayload: {
            /**
             * Step
             * @description Step of the checkpoint; the newest if left out.
             */
            step?: number | null;
            /**
             * Timeline
             * @description Timeline, if several have this step; the newest if left out.
             */
            timeline?: number | null;
        };
        /**
         * LossZCondition
         * @description Pause when the loss is this many standard deviations above its recent mean.
         */
        LossZCondition: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "loss_z";
            /**
             * Limit
             * @default 4
             */
            limit: number;
            /**
             * Window
             * @default 200
             */
            window: number;
        };
        /**
         * MapPoints
         * @description Points as columns.
         */
        MapPoints: {
            /** X */
            x: (number | ("NaN" | "Infinity" | "-Infinity"))[];
            /** Y */
            y: (number | ("NaN" | "Infinity" | "-Infinity"))[];
        };
        /**
         * MapQuestions
         * @description Sampled questions, each with one of its pairs.
         */
        MapQuestions: {
            /** Cluster */
            cluster: number[];
            /** Pair */
            pair: number[];
            /** Question */
            question: number[];
            /** Split */
            split: (("train" | "val" | "test") | null)[];
            /** X */
            x: (number | ("NaN" | "Infinity" | "-Infinity"))[];
            /** Y */
            y: (number | ("NaN" | "Infinity" | "-Infinity"))[];
        };
        /**
         * MaskOut
         * @description Masks of the images: `…/batch/picture?layer=mask` has a class in each pixel.
         */
        MaskOut: {
            /** Classes */
            classes: components["schemas"]["ClassOut"][];
            /** Layers */
            layers: ("mask" | "prediction")[];
        };
        /**
         * MediaContentOut
         * @description The content of a text or of a table.
         */
        MediaContentOut: {
            /** Columns */
            columns: string[];
            /** Rows */
            rows: (boolean | number | string | ("NaN" | "Infinity" | "-Infinity") | null)[][];
            /** Text */
            text: string | null;
        };
        /**
         * MediaGroupDetail
         * @description A group with what is known of each item.
         */
        MediaGroupDetail: {
            /** Abandoned */
            abandoned: number;
            /** Bytes */
            bytes: number;
            /** Id */
            id: string;
            /** Items */
            items: components["schemas"]["MediaItemOut"][];
            /** Key */
            key: string;
            /**
             * Kind
             * @enum {string}
             */
            kind: "image" | "text" | "histogram" | "table";
            /** Logged */
            logged: number;
            /** Numbers */
            numbers: number[];
            /** Steps */
            steps: number[];
        };
        /**
         * MediaGroupOut
         * @description All of one kind that was logged under one name.
         */
        MediaGroupOut: {
            /** Abandoned */
            abandoned: number;
            /** Bytes */
            bytes: number;
            /** Id */
            id: string;
            /** Key */
            key: string;
            /**
             * Kind
             * @enum {string}
             */
            kind: "image" | "text" | "histogram" | "table";
            /** Logged */
            logged: number;
            /** Numbers */
            numbers: number[];
            /** Steps */
            steps: number[];
        };
        /**
         * MediaItemOut
         * @description One logged picture, text, histogram or table; one of the last four fields is set.
         */
        MediaItemOut: {
            /** At */
            at: number;
            /** Bytes */
            bytes: number;
            histogram: components["schemas"]["HistogramOut"] | null;
            /** Number */
            number: number;
            picture: components["schemas"]["PictureOut"] | null;
            /** Step */
            step: number;
            table: components["schemas"]["TableAboutOut"] | null;
            text: components["schemas"]["TextAboutOut"] | null;
            /** Timeline */
            timeline: number;
        };
        /**
         * MediaListOut
         * @description Everything that a run logged besides numbers.
         */
        MediaListOut: {
            /** Groups */
            groups: components["schemas"]["MediaGroupOut"][];
        };
        /**
         * MetricCondition
         * @description Pause when the comparison of a logged scalar with a value is true.
         */
        MetricCondition: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "metric";
            /** Name */
            name: string;
            /**
             * Op
             * @enum {string}
             */
            op: "<" | "<=" | ">" | ">=" | "==" | "!=";
            /** Value */
            value: number;
        };
        /**
         * NegativeOut
         * @description A source that does not answer the question.
         */
        NegativeOut: {
            /** Id */
            id: number;
            /** Of Positive */
            of_positive: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Place */
            place: number;
            /** Similarity */
            similarity: number | ("NaN" | "Infinity" | "-Infinity");
            /** Text */
            text: string | null;
            /** Tier */
            tier: number;
        };
        /**
         * NonFiniteCondition
         * @description Pause when the loss is NaN or infinite.
         */
        NonFiniteCondition: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "loss_nonfinite";
        };
        /**
         * OriginOut
         * @description Where the first value that is not finite appeared.
         */
        OriginOut: {
            /**
             * Kind
             * @enum {string}
             */
            kind: "input" | "parameter" | "module" | "operation" | "gradient";
            /** Name */
            name: string;
        };
        /**
         * PairLine
         * @description A pair in the list.
         */
        PairLine: {
            /** Cluster */
            cluster: number;
            /** Distance */
            distance: number | ("NaN" | "Infinity" | "-Infinity");
            /** Pair */
            pair: number;
            /** Question */
            question: string | null;
            /** Question Id */
            question_id: number;
            /** Relevance */
            relevance: number | ("NaN" | "Infinity" | "-Infinity");
            /** Split */
            split: ("train" | "val" | "test") | null;
        };
        /**
         * PairListOut
         * @description Pairs of a split or a cluster, sorted by id.
         */
        PairListOut: {
            /** Offset */
            offset: number;
            /** Pairs */
            pairs: components["schemas"]["PairLine"][];
            /** Total */
            total: number;
        };
        /**
         * PairOut
         * @description A pair with everything that a batch takes from it.
         */
        PairOut: {
            /** Cluster */
            cluster: number;
            /** Distance */
            distance: number | ("NaN" | "Infinity" | "-Infinity");
            /** Keywords */
            keywords: components["schemas"]["RowOut"][];
            /** Negatives */
            negatives: components["schemas"]["NegativeOut"][];
            /** Pair */
            pair: number;
            /** Question */
            question: string | null;
            /** Question Id */
            question_id: number;
            /** Relevance */
            relevance: number | ("NaN" | "Infinity" | "-Infinity");
            source: components["schemas"]["RowOut"];
            /** Split */
            split: ("train" | "val" | "test") | null;
            /** Steering */
            steering: components["schemas"]["SteeringOut"][];
            /** Variants */
            variants: number[];
        };
        /**
         * PanelOut
         * @description How to show one entry of the step data; a hint that may not fit the data.
         */
        PanelOut: {
            /** Colour */
            colour: string | null;
            /** Fields */
            fields: {
                [key: string]: components["schemas"]["FieldOut"];
            };
            /**
             * Kind
             * @enum {string}
             */
            kind: "table" | "scatter" | "matrix" | "images" | "series" | "text";
            /** Label */
            label: string | null;
            /** Log X */
            log_x: boolean;
            /** Log Y */
            log_y: boolean;
            /** Scale */
            scale: ("signed" | "similarity" | "range") | null;
            /** Shape */
            shape: number[] | null;
            sort: components["schemas"]["SortOut"] | null;
            /** Source */
            source: string | null;
            status: components["schemas"]["StatusOut"] | null;
            /** Title */
            title: string | null;
            /** X */
            x: string | null;
            /** Y */
            y: string | null;
        };
        /**
         * PauseCommandIn
         * @description Pause the run at its next step boundary.
         */
        PauseCommandIn: {
            /**
             * Command
             * @constant
             */
            command: "pause";
            /** Id */
            id?: string | null;
            payload?: components["schemas"]["PausePayload"];
        };
        /** PausePayload */
        PausePayload: Record<string, never>;
        /**
         * PictureOut
         * @description What is known of a picture.
         */
        PictureOut: {
            /** Every */
            every: number;
            /** Height */
            height: number;
            /** High */
            high: number | null;
            /** Low */
            low: number | null;
            /** Nonfinite */
            nonfinite: number;
            /** Of */
            of: number;
            /** Tiles */
            tiles: number;
            /** Width */
            width: number;
        };
        /**
         * PicturesOut
         * @description The first sample at fault, and its row of the first bad output.
         */
        PicturesOut: {
            input: components["schemas"]["PlaneOut"] | null;
            output: components["schemas"]["PlaneOut"] | null;
            /** Output Of */
            output_of: string | null;
            /** Position */
            position: number;
        };
        /**
         * PingMessage
         * @description Sent after a second without other messages; longer silence means a lost connection.
         */
        PingMessage: {
            /** At */
            at: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "ping";
        };
        /**
         * PlaneOut
         * @description One channel as a small picture.
         */
        PlaneOut: {
            /** Channel */
            channel: number | null;
            /** Channels */
            channels: number;
            /** Height */
            height: number;
            /** High */
            high: number | ("NaN" | "Infinity" | "-Infinity");
            /** Levels */
            levels: string;
            /** Low */
            low: number | ("NaN" | "Infinity" | "-Infinity");
            /** Signed */
            signed: boolean;
            /** Width */
            width: number;
        };
        /**
         * PreviewIn
         * @description A recipe with typed settings; never code, argv or a path.
         */
        PreviewIn: {
            /** Recipe */
            recipe: string;
            /**
             * Settings
             * @default {}
             */
            settings: {
                [key: string]: boolean | number | string | number[] | string[] | null;
            };
        };
        /**
         * PreviewOut
         * @description All settings that a run would have.
         */
        PreviewOut: {
            /** Config */
            config: string;
        };
        /**
         * Problem
         * @description The body of every error response: what happened and what to do.
         */
        Problem: {
            /** Command Id */
            command_id: string | null;
            /** Error */
            error: string;
            /** Field */
            field: string | null;
            /** Incident */
            incident: string | null;
            /** Message */
            message: string;
        };
        /**
         * RecipeList
         * @description All recipes, and whether they can be started from here.
         */
        RecipeList: {
            /** Can Start */
            can_start: boolean;
            /** Recipes */
            recipes: components["schemas"]["RecipeOut"][];
            /** Why Not */
            why_not: string | null;
        };
        /**
         * RecipeOut
         * @description A training that can be started by name.
         */
        RecipeOut: {
            /** About */
            about: string;
            /** Name */
            name: string;
            /** Settings */
            settings: components["schemas"]["SettingOut"][];
            /** Title */
            title: string;
        };
        /**
         * RepeatedOut
         * @description Repeated steps, compared with the record of the first time.
         */
        RepeatedOut: {
            /** Cause */
            cause: string;
            /** Compared */
            compared: {
                [key: string]: number;
            };
            /** Exact */
            exact: boolean | null;
            /** Recorded */
            recorded: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Repeated */
            repeated: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Step */
            step: number | null;
            /** Steps */
            steps: number;
            /** Text */
            text: string;
            /** Verdict */
            verdict: ("exact" | "repeatable" | "moved" | "differs" | "close") | null;
            /** What */
            what: string | null;
        };
        /**
         * ResetSessionCommandIn
         * @description Return to the state before step 0.
         */
        ResetSessionCommandIn: {
            /**
             * Command
             * @enum {string}
             */
            command: "reset_session" | "resetSession";
            /** Id */
            id?: string | null;
            payload?: components["schemas"]["ResetSessionPayload"];
        };
        /** ResetSessionPayload */
        ResetSessionPayload: Record<string, never>;
        /**
         * ResumeCommandIn
         * @description Continue the run.
         */
        ResumeCommandIn: {
            /**
             * Command
             * @constant
             */
            command: "resume";
            /** Id */
            id?: string | null;
            payload?: components["schemas"]["ResumePayload"];
        };
        /** ResumePayload */
        ResumePayload: Record<string, never>;
        /**
         * RewindOut
         * @description How far back the run can go, and what that costs.
         */
        RewindOut: {
            /** Available */
            available: boolean;
            /** Budget Bytes */
            budget_bytes: number;
            /** Bytes */
            bytes: number;
            /** First Step */
            first_step: number | null;
            /** Reason */
            reason: string | null;
            /** Replay Cost S */
            replay_cost_s: number | null;
            /** Snapshot Steps */
            snapshot_steps: number[];
            /** Step */
            step: number;
            /** Timeline */
            timeline: number;
        };
        /**
         * RowOut
         * @description A row of a table of embeddings, and its similarity to the question.
         */
        RowOut: {
            /** Id */
            id: number;
            /** Similarity */
            similarity: number | ("NaN" | "Infinity" | "-Infinity");
            /** Text */
            text: string | null;
        };
        /**
         * RuleCondition
         * @description Pause when a rule finds a problem; settings that are left out have the rule's defaults.
         */
        RuleCondition: {
            /** Every */
            every?: number | null;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "rule";
            /** Layers */
            layers?: string | null;
            /** Limit */
            limit?: (number) | null;
            /** Low */
            low?: (number) | null;
            /** Metric */
            metric?: string | null;
            /**
             * Rule
             * @enum {string}
             */
            rule: "vanishing_gradients" | "exploding_gradients" | "dead_relus" | "saturated_activations" | "loss_not_falling" | "unchanged_weights" | "all_zero_tensors" | "nonfinite_layer" | "update_ratio" | "overfitting";
            /** Window */
            window?: number | null;
        };
        /**
         * RuleDefaults
         * @description Default settings of a rule; null if the rule has no such setting.
         */
        RuleDefaults: {
            /** Every */
            every: number | null;
            /** Layers */
            layers: string | null;
            /** Limit */
            limit: number | null;
            /** Low */
            low: number | null;
            /** Metric */
            metric: string | null;
            /** Window */
            window: number | null;
        };
        /**
         * RuleOut
         * @description One rule: its condition, and what a finding means.
         */
        RuleOut: {
            defaults: components["schemas"]["RuleDefaults"];
            explanation: components["schemas"]["ExplanationOut"];
            /** Needs Model */
            needs_model: boolean;
            /**
             * Rule
             * @enum {string}
             */
            rule: "vanishing_gradients" | "exploding_gradients" | "dead_relus" | "saturated_activations" | "loss_not_falling" | "unchanged_weights" | "all_zero_tensors" | "nonfinite_layer" | "update_ratio" | "overfitting";
            /** Title */
            title: string;
            /** Words */
            words: string;
        };
        /**
         * RunColumns
         * @description Columns that a table of these runs can show.
         */
        RunColumns: {
            /** Config */
            config: string[];
            /** Summary */
            summary: string[];
        };
        /**
         * RunDetail
         * @description One run with its header record.
         */
        RunDetail: {
            /** Attempt */
            attempt: number;
            /** Bytes */
            bytes: number | null;
            /** Commands */
            commands: string[];
            /** Config */
            config: {
                [key: string]: number | string | boolean | null;
            };
            /** Directory */
            directory: string;
            /** Ended At */
            ended_at: number | null;
            /** Epoch */
            epoch: number | null;
            /** Header */
            header: {
                [key: string]: unknown;
            };
            /** Host */
            host: string | null;
            /** Id */
            id: string;
            /** Live */
            live: boolean;
            /** Name */
            name: string;
            /** Note */
            note: string;
            /** Parent */
            parent: string | null;
            /** Reachable */
            reachable: boolean;
            /** Recipe */
            recipe: string | null;
            /** Scalars */
            scalars: string[];
            /** Seed */
            seed: number | null;
            /** Started At */
            started_at: number | null;
            /**
             * State
             * @enum {string}
             */
            state: "running" | "not responding" | "finished" | "stopped" | "failed" | "killed" | "lost" | "starting" | "pausing" | "paused" | "stepping" | "rewinding" | "busy" | "stopping" | "damaged";
            /** Step */
            step: number | null;
            /** Summary */
            summary: {
                [key: string]: number | ("NaN" | "Infinity" | "-Infinity");
            };
            /** Tags */
            tags: string[];
            /** Timeline */
            timeline: number;
            /** Total Steps */
            total_steps: number | null;
            /** Updated At */
            updated_at: number | null;
            /** Why */
            why: string | null;
        };
        /**
         * RunList
         * @description The requested page of runs.
         */
        RunList: {
            /** Can Start */
            can_start: boolean;
            columns: components["schemas"]["RunColumns"];
            /** Groups */
            groups: components["schemas"]["GroupOut"][] | null;
            /** Has Stream */
            has_stream: boolean;
            /** Matching */
            matching: number;
            /** Runs */
            runs: components["schemas"]["RunOut"][];
            /** States */
            states: {
                [key: string]: number;
            };
            /** Total */
            total: number;
        };
        /**
         * RunOut
         * @description One run, live or ended.
         */
        RunOut: {
            /** Attempt */
            attempt: number;
            /** Bytes */
            bytes: number | null;
            /** Config */
            config: {
                [key: string]: number | string | boolean | null;
            };
            /** Directory */
            directory: string;
            /** Ended At */
            ended_at: number | null;
            /** Epoch */
            epoch: number | null;
            /** Host */
            host: string | null;
            /** Id */
            id: string;
            /** Live */
            live: boolean;
            /** Name */
            name: string;
            /** Note */
            note: string;
            /** Parent */
            parent: string | null;
            /** Reachable */
            reachable: boolean;
            /** Recipe */
            recipe: string | null;
            /** Scalars */
            scalars: string[];
            /** Seed */
            seed: number | null;
            /** Started At */
            started_at: number | null;
            /**
             * State
             * @enum {string}
             */
            state: "running" | "not responding" | "finished" | "stopped" | "failed" | "killed" | "lost" | "starting" | "pausing" | "paused" | "stepping" | "rewinding" | "busy" | "stopping" | "damaged";
            /** Step */
            step: number | null;
            /** Summary */
            summary: {
                [key: string]: number | ("NaN" | "Infinity" | "-Infinity");
            };
            /** Tags */
            tags: string[];
            /** Timeline */
            timeline: number;
            /** Total Steps */
            total_steps: number | null;
            /** Updated At */
            updated_at: number | null;
            /** Why */
            why: string | null;
        };
        /**
         * RunUntilCommandIn
         * @description Continue the run, and pause when STEP steps are finished.
         */
        RunUntilCommandIn: {
            /**
             * Command
             * @constant
             */
            command: "run_until";
            /** Id */
            id?: string | null;
            payload: components["schemas"]["RunUntilPayload"];
        };
        /**
         * RunUntilIn
         * @description Continue the run, and pause when STEP steps are finished.
         */
        RunUntilIn: {
            /** Id */
            id?: string | null;
            /**
             * Step
             * @description Number of finished steps to pause at.
             */
            step: number;
        };
        /** RunUntilPayload */
        RunUntilPayload: {
            /**
             * Step
             * @description Number of finished steps to pause at.
             */
            step: number;
        };
        /**
         * RunsMessage
         * @description Changes of the run list, at most two a second; the first has the live runs. Volatile.
         */
        RunsMessage: {
            /** Removed */
            removed: string[];
            /** Runs */
            runs: components["schemas"]["RunOut"][];
            /** States */
            states: {
                [key: string]: number;
            };
            /** Total */
            total: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "runs";
        };
        /**
         * SampleCondition
         * @description Pause when one of these samples was in the batch.
         */
        SampleCondition: {
            /** Ids */
            ids: number[];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "sample";
        };
        /**
         * SampleOut
         * @description One sample of the last batch that was captured whole, at full resolution.
         */
        SampleOut: {
            /** Channels */
            channels: number | null;
            /** Columns */
            columns: components["schemas"]["ColumnOut"][] | null;
            /** Count */
            count: number;
            /** Dtype */
            dtype: string;
            /** Etag */
            etag: string;
            frames: components["schemas"]["FramesOut"] | null;
            grid: components["schemas"]["GridOut"] | null;
            /** Height */
            height: number | null;
            /** High */
            high: number | ("NaN" | "Infinity" | "-Infinity");
            /** Index */
            index: number;
            /**
             * Kind
             * @enum {string}
             */
            kind: "images" | "image_mask" | "frames" | "text" | "tokens" | "table" | "vectors" | "audio" | "series" | "nested" | "other";
            /** Label */
            label: number | ("NaN" | "Infinity" | "-Infinity") | string | null;
            lines: components["schemas"]["LinesOut"] | null;
            /** Loss */
            loss: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Loss Share */
            loss_share: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Low */
            low: number | ("NaN" | "Infinity" | "-Infinity");
            mask: components["schemas"]["MaskOut"] | null;
            /** Nonfinite */
            nonfinite: number;
            /** Note */
            note: string | null;
            /** Pieces */
            pieces: string[] | null;
            /** Prediction */
            prediction: number | ("NaN" | "Infinity" | "-Infinity") | string | null;
            /** Probability */
            probability: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Sample Id */
            sample_id: number | null;
            /** Sample Rate */
            sample_rate: number | null;
            /** Shape */
            shape: number[];
            /** Step */
            step: number;
            /** Text */
            text: string | null;
            /** Tokens */
            tokens: number[] | null;
            /** Values */
            values: (number | ("NaN" | "Infinity" | "-Infinity"))[] | null;
            /** Width */
            width: number | null;
        };
        /**
         * SaveCheckpointCommandIn
         * @description Write a checkpoint at the next step boundary.
         */
        SaveCheckpointCommandIn: {
            /**
             * Command
             * @enum {string}
             */
            command: "save_checkpoint" | "saveCheckpoint";
            /** Id */
            id?: string | null;
            payload?: components["schemas"]["SaveCheckpointPayload"];
        };
        /** SaveCheckpointPayload */
        SaveCheckpointPayload: Record<string, never>;
        /**
         * ScalarsMessage
         * @description Scalars since the last frame, by column. Durable.
         */
        ScalarsMessage: {
            /** Columns */
            columns: {
                [key: string]: (number | ("NaN" | "Infinity" | "-Infinity") | null)[];
            };
            /** First Seq */
            first_seq: number;
            /** Last Seq */
            last_seq: number;
            /** Step */
            step: number[];
            /** Timeline */
            timeline: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "scalars";
        };
        /**
         * ScalarsOut
         * @description Series of a run.
         */
        ScalarsOut: {
            /** Seq */
            seq: number;
            /** Series */
            series: {
                [key: string]: components["schemas"]["SeriesOut"];
            };
            /** Timeline */
            timeline: number;
        };
        /**
         * ScheduleOut
         * @description Shares of the four variants over epochs.
         */
        ScheduleOut: {
            /** Beyond */
            beyond: (number | ("NaN" | "Infinity" | "-Infinity"))[] | null;
            /** Largest Distance */
            largest_distance: (number | ("NaN" | "Infinity" | "-Infinity"))[] | null;
            /** Name */
            name: string;
            /** Own */
            own: boolean;
            /** Settings */
            settings: {
                [key: string]: unknown;
            };
            /** Shares */
            shares: (number | ("NaN" | "Infinity" | "-Infinity"))[][];
        };
        /**
         * ScriptList
         * @description The scripts that this server may start; empty for a view-only link.
         */
        ScriptList: {
            /** Scripts */
            scripts: components["schemas"]["ScriptOut"][];
            /** Why Not */
            why_not: string | null;
        };
        /**
         * ScriptOut
         * @description A script that can be started.
         */
        ScriptOut: {
            /** Id */
            id: string;
            /** Name */
            name: string;
            /** Title */
            title: string;
        };
        /**
         * ScriptStartIn
         * @description A script to start; never code, argv or a path.
         */
        ScriptStartIn: {
            /** Id */
            id: string;
            /** Name */
            name?: string | null;
            /**
             * Paused
             * @default false
             */
            paused: boolean;
        };
        /**
         * SeriesOut
         * @description One series: exact points, or min/max buckets when there were too many.
         */
        SeriesOut: {
            /** Count */
            count: number;
            /** Exact */
            exact: boolean;
            /** High */
            high: (number | ("NaN" | "Infinity" | "-Infinity"))[];
            /** Low */
            low: (number | ("NaN" | "Infinity" | "-Infinity"))[];
            /** Step */
            step: number[];
        };
        /**
         * SetHparamsCommandIn
         * @description Change hyperparameters from the next step on, and show the old values.
         */
        SetHparamsCommandIn: {
            /**
             * Command
             * @enum {string}
             */
            command: "set_hparams" | "setHparams";
            /** Id */
            id?: string | null;
            payload?: components["schemas"]["SetHparamsPayload"];
        };
        /** SetHparamsPayload */
        SetHparamsPayload: {
            /**
             * Betas
             * @description The two decay rates of Adam and similar optimizers.
             */
            betas?: [
                number,
                number
            ] | null;
            /**
             * Eps
             * @description Term added to the denominator.
             */
            eps?: (number) | null;
            /**
             * Lr
             * @description Learning rate; a scheduler continues in proportion.
             */
            lr?: (number) | null;
            /**
             * Lr Mul
             * @description Factor for each group's learning rate.
             */
            lr_mul?: (number) | null;
            /**
             * Momentum
             * @description Momentum of SGD and RMSprop.
             */
            momentum?: (number) | null;
            /**
             * Optimizer
             * @description Name of one of several optimizers, or `all`; a list has 0, 1, …
             */
            optimizer?: string | null;
            /**
             * Wd Mul
             * @description Factor for each group's weight decay.
             */
            wd_mul?: (number) | null;
            /**
             * Weight Decay
             * @description Weight decay.
             */
            weight_decay?: (number) | null;
        };
        /**
         * SettingOut
         * @description One setting of a recipe.
         */
        SettingOut: {
            /** About */
            about: string;
            /** Choices */
            choices: string[];
            /** Default */
            default: boolean | number | string | number[] | string[];
            /** Group */
            group: string;
            /** Is Optional */
            is_optional: boolean;
            /**
             * Kind
             * @enum {string}
             */
            kind: "int" | "float" | "bool" | "choice" | "text" | "ints" | "words" | "file";
            /** Maximum */
            maximum: number | null;
            /** Minimum */
            minimum: number | null;
            /** Name */
            name: string;
        };
        /**
         * ShortageOut
         * @description A tier of a pair with too few negatives.
         */
        ShortageOut: {
            /** Filled From */
            filled_from: {
                [key: string]: number;
            };
            /** Found */
            found: number;
            /** Pair */
            pair: number;
            /** Tier */
            tier: number;
            /** Wanted */
            wanted: number;
        };
        /**
         * SortOut
         * @description The initial order of the rows.
         */
        SortOut: {
            /** Descending */
            descending: boolean;
            /** Field */
            field: string;
        };
        /**
         * SourceTrajectories
         * @description Points of the rows of one source, also of rows that are no longer watched.
         */
        SourceTrajectories: {
            /** Pairwise */
            pairwise: {
                [key: string]: {
                    [key: string]: number | ("NaN" | "Infinity" | "-Infinity");
                }[];
            };
            /** Trajectories */
            trajectories: {
                [key: string]: {
                    [key: string]: number | ("NaN" | "Infinity" | "-Infinity") | null;
                }[];
            };
            /** Watched */
            watched: number[];
        };
        /**
         * SpreadOut
         * @description Mean and spread of a value over runs.
         */
        SpreadOut: {
            /** Count */
            count: number;
            /** Mean */
            mean: number | ("NaN" | "Infinity" | "-Infinity");
            /** Std */
            std: number | ("NaN" | "Infinity" | "-Infinity") | null;
        };
        /**
         * StartIn
         * @description A run to start.
         */
        StartIn: {
            /** Id */
            id: string;
            /** Name */
            name?: string | null;
            /**
             * Paused
             * @default false
             */
            paused: boolean;
            /** Recipe */
            recipe: string;
            /**
             * Settings
             * @default {}
             */
            settings: {
                [key: string]: boolean | number | string | number[] | string[] | null;
            };
        };
        /**
         * StateMessage
         * @description The state changed. Volatile: only the newest is sent.
         */
        StateMessage: {
            /** Dropped */
            dropped: number;
            state: components["schemas"]["StateOut"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "state";
        };
        /**
         * StateOut
         * @description The state of a live run as it is, not as it will be after waiting commands.
         */
        StateOut: {
            /** Batch Step */
            batch_step: number | null;
            /** Boundary Age S */
            boundary_age_s: number;
            breakpoint: components["schemas"]["Evidence"] | null;
            /** Busy With */
            busy_with: string | null;
            /** Checkpoints Off */
            checkpoints_off: string | null;
            /** Diagnosed Step */
            diagnosed_step: number | null;
            /** Epoch */
            epoch: number | null;
            /** Has Batch */
            has_batch: boolean;
            /** Loss */
            loss: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Lr */
            lr: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /**
             * Number
             * @default 0
             */
            number: number;
            /** Offers */
            offers: string[];
            /** Parked */
            parked: boolean;
            /** Paused */
            paused: boolean;
            /** Phase */
            phase: string | null;
            /** Phase S */
            phase_s: number | null;
            /** Reason */
            reason: string | null;
            repeated: components["schemas"]["RepeatedOut"] | null;
            /** Run Until */
            run_until: number | null;
            /**
             * State
             * @enum {string}
             */
            state: "running" | "not responding" | "finished" | "stopped" | "failed" | "killed" | "lost" | "starting" | "pausing" | "paused" | "stepping" | "rewinding" | "busy";
            /** Step */
            step: number;
            /**
             * Step Data Additions
             * @default 0
             */
            step_data_additions: number;
            /** Step Data Keys */
            step_data_keys: string[];
            /** Step Data Offered */
            step_data_offered: string[];
            /** Step Data Panels */
            step_data_panels: {
                [key: string]: "table" | "scatter" | "matrix" | "images" | "series" | "text";
            };
            /** Step Data Step */
            step_data_step: number | null;
            /** Steps Left */
            steps_left: number | null;
            /** Steps Per S */
            steps_per_s: number | null;
            /** Stopped */
            stopped: boolean;
            /** Timeline */
            timeline: number;
            /** Total Epochs */
            total_epochs: number | null;
            /** Total Steps */
            total_steps: number | null;
            /** Waiting For */
            waiting_for: string | null;
        };
        /**
         * StatusOut
         * @description The column that decides the status of a row; the first level that matches counts.
         */
        StatusOut: {
            /** Field */
            field: string;
            /** Levels */
            levels: components["schemas"]["LevelOut"][];
            otherwise: components["schemas"]["WordOut"];
        };
        /**
         * SteeringOut
         * @description One stored steering vector.
         */
        SteeringOut: {
            /** Length */
            length: number | ("NaN" | "Infinity" | "-Infinity");
            /** To Centroid */
            to_centroid: number | ("NaN" | "Infinity" | "-Infinity");
            /** To Question */
            to_question: number | ("NaN" | "Infinity" | "-Infinity");
            /** To Source */
            to_source: number | ("NaN" | "Infinity" | "-Infinity");
            /** Variant */
            variant: string;
        };
        /**
         * StepCommandIn
         * @description Run N steps (1), then pause again. The run must be paused.
         */
        StepCommandIn: {
            /**
             * Command
             * @constant
             */
            command: "step";
            /** Id */
            id?: string | null;
            payload?: components["schemas"]["StepPayload"];
        };
        /**
         * StepCondition
         * @description Pause when this many steps are finished.
         */
        StepCondition: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            kind: "step";
            /** Step */
            step: number;
        };
        /**
         * StepDataKeys
         * @description The keys of the step data of the last shown step.
         */
        StepDataKeys: {
            /** Keys */
            keys: string[];
            /** Panels */
            panels: {
                [key: string]: components["schemas"]["PanelOut"] | null;
            };
            /** Step */
            step: number | null;
        };
        /**
         * StepDataOut
         * @description One entry of the step data, encoded.
         */
        StepDataOut: {
            /** Data */
            data: unknown;
            /** Fits */
            fits: boolean;
            /** Key */
            key: string;
            /** Nonfinite */
            nonfinite?: string[];
            /** Note */
            note: string | null;
            panel: components["schemas"]["PanelOut"] | null;
            /** Step */
            step: number;
            /** Summarised */
            summarised: boolean;
        };
        /**
         * StepIn
         * @description Run N steps (1), then pause again. The run must be paused.
         */
        StepIn: {
            /** Id */
            id?: string | null;
            /**
             * N
             * @description Number of steps.
             * @default 1
             */
            n: number;
        };
        /** StepPayload */
        StepPayload: {
            /**
             * N
             * @description Number of steps.
             * @default 1
             */
            n: number;
        };
        /**
         * StopCommandIn
         * @description End the training at its next step boundary.
         */
        StopCommandIn: {
            /**
             * Command
             * @constant
             */
            command: "stop";
            /** Id */
            id?: string | null;
            payload?: components["schemas"]["StopPayload"];
        };
        /**
         * StopOut
         * @description The last stop of a run by a breakpoint, a rule or an error.
         */
        StopOut: {
            diagnosis: components["schemas"]["DiagnosisOut"] | null;
            failure: components["schemas"]["FailureOut"] | null;
        };
        /** StopPayload */
        StopPayload: Record<string, never>;
        /**
         * StreamMessage
         * @description Any message of the stream; `StreamMessage` in the OpenAPI document.
         */
        StreamMessage: components["schemas"]["HelloMessage"] | components["schemas"]["StateMessage"] | components["schemas"]["ScalarsMessage"] | components["schemas"]["EventMessage"] | components["schemas"]["CommandMessage"] | components["schemas"]["BreakpointsMessage"] | components["schemas"]["CaptureMessage"] | components["schemas"]["RunsMessage"] | components["schemas"]["PingMessage"];
        /**
         * SubscriptionsIn
         * @description All that a stream shows; it replaces the list before.
         */
        SubscriptionsIn: {
            /** Subscriptions */
            subscriptions: (components["schemas"]["BatchSubscription"] | components["schemas"]["KeySubscription"] | components["schemas"]["LayersSubscription"])[];
            /** Version */
            version: number;
        };
        /**
         * SubscriptionsOut
         * @description What the run captures for the stream from now on.
         */
        SubscriptionsOut: {
            /** Accepted */
            accepted: string[];
            /** Stream */
            stream: string;
            /** Version */
            version: number;
        };
        /**
         * SweepActionOut
         * @description What was done to a sweep.
         */
        SweepActionOut: {
            /** Id */
            id: string;
            /** Pool */
            pool: boolean;
        };
        /**
         * SweepAxisOut
         * @description A setting that the sweep varies.
         */
        SweepAxisOut: {
            /** Is Seed */
            is_seed: boolean;
            /** Key */
            key: string;
            /** Label */
            label: string;
            /** Values */
            values: string[];
        };
        /**
         * SweepCellOut
         * @description One cell of a sweep.
         */
        SweepCellOut: {
            /** Address */
            address: string;
            /** Change */
            change: ("code" | "data" | "accepted code") | null;
            /** Choices */
            choices: {
                [key: string]: string;
            };
            /** Epoch */
            epoch: number | null;
            /** Error */
            error: string | null;
            /** Job */
            job: number;
            /** Name */
            name: string;
            /** Open */
            open: boolean;
            /** Run Id */
            run_id: string | null;
            /** Run State */
            run_state: ("running" | "not responding" | "finished" | "stopped" | "failed" | "killed" | "lost" | "starting" | "pausing" | "paused" | "stepping" | "rewinding" | "busy" | "stopping" | "damaged") | null;
            /** Share */
            share: number | null;
            /**
             * State
             * @enum {string}
             */
            state: "missing" | "running" | "finished" | "stopped" | "killed" | "failed";
            /** Step */
            step: number | null;
            /** Value */
            value: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Values */
            values: {
                [key: string]: number | ("NaN" | "Infinity" | "-Infinity");
            };
        };
        /**
         * SweepEffectOut
         * @description What one level of an axis changes against another one, with the other axes held.
         */
        SweepEffectOut: {
            /** Against */
            against: string;
            /** Axis */
            axis: string;
            /** Better */
            better: string | null;
            /** Enough */
            enough: boolean;
            /** Held */
            held: {
                [key: string]: string;
            };
            /** High */
            high: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Level */
            level: string;
            /** Low */
            low: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Mean */
            mean: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Pairs */
            pairs: components["schemas"]["SweepPairOut"][];
            /** Seeds */
            seeds: number;
        };
        /**
         * SweepList
         * @description The sweeps under the outputs folder, the newest first.
         */
        SweepList: {
            /** Damaged */
            damaged: string[];
            /** Sweeps */
            sweeps: components["schemas"]["SweepRowOut"][];
        };
        /**
         * SweepOut
         * @description One sweep with its cells and the effects of its axes.
         */
        SweepOut: {
            /** Axes */
            axes: components["schemas"]["SweepAxisOut"][];
            /** Can Start */
            can_start: boolean;
            /** Cells */
            cells: number;
            /** Comparisons */
            comparisons: components["schemas"]["SweepEffectOut"][];
            /** Created */
            created: number;
            /** Directory */
            directory: string;
            /** Effects */
            effects: components["schemas"]["SweepEffectOut"][];
            /** Fewest Seeds */
            fewest_seeds: number;
            /** Fixed */
            fixed: string[];
            /** Grid */
            grid: components["schemas"]["SweepCellOut"][];
            /** Id */
            id: string;
            /** Lower Is Better */
            lower_is_better: boolean;
            /** Name */
            name: string;
            /** Open */
            open: number;
            /** Pool */
            pool: boolean;
            /** States */
            states: {
                [key: string]: number;
            };
            /** Value */
            value: string;
            /** Value Names */
            value_names: string[];
            /** Why Not */
            why_not: string | null;
        };
        /**
         * SweepPairOut
         * @description Two finished cells that differ in one axis alone.
         */
        SweepPairOut: {
            /** Against */
            against: number;
            /** Difference */
            difference: number | ("NaN" | "Infinity" | "-Infinity");
            /** Job */
            job: number;
        };
        /**
         * SweepRowOut
         * @description A sweep in the list of sweeps.
         */
        SweepRowOut: {
            /** Cells */
            cells: number;
            /** Created */
            created: number;
            /** Directory */
            directory: string;
            /** Id */
            id: string;
            /** Name */
            name: string;
            /** Open */
            open: number;
            /** Pool */
            pool: boolean;
            /** States */
            states: {
                [key: string]: number;
            };
        };
        /**
         * SweepStartIn
         * @description Which cells to run.
         */
        SweepStartIn: {
            /** Cells */
            cells?: number[] | null;
            /**
             * Jobs
             * @default 2
             */
            jobs: number;
            /**
             * Retry Failed
             * @default false
             */
            retry_failed: boolean;
        };
        /**
         * TableAboutOut
         * @description What is known of a table.
         */
        TableAboutOut: {
            /** Columns */
            columns: number;
            /** Of */
            of: number;
            /** Rows */
            rows: number;
        };
        /**
         * TensorSummary
         * @description A tensor too large to send as JSON.
         */
        TensorSummary: {
            /** Dtype */
            dtype: string;
            /** Elements */
            elements: number;
            /** Finite */
            finite: number;
            /** Max */
            max: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Mean */
            mean: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Min */
            min: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /** Shape */
            shape: number[];
            /** Std */
            std: number | ("NaN" | "Infinity" | "-Infinity") | null;
            /**
             * Summary
             * @default true
             * @constant
             */
            summary: true;
        };
        /**
         * TestNowCommandIn
         * @description Evaluate the test loader at the next step boundary.
         */
        TestNowCommandIn: {
            /**
             * Command
             * @enum {string}
             */
            command: "test_now" | "testRun";
            /** Id */
            id?: string | null;
            payload?: components["schemas"]["TestNowPayload"];
        };
        /** TestNowPayload */
        TestNowPayload: Record<string, never>;
        /**
         * TextAboutOut
         * @description What is known of a text.
         */
        TextAboutOut: {
            /** Characters */
            characters: number;
            /** Cut */
            cut: boolean;
        };
        /**
         * ThinningOut
         * @description What was left out of a capture.
         */
        ThinningOut: {
            /** Every */
            every: number;
            /** Of */
            of: number | null;
            /** Shown */
            shown: number | null;
        };
        /**
         * TimelineOut
         * @description A part of a run's history, from its start or from a rewind on.
         */
        TimelineOut: {
            /** At */
            at: number | null;
            /** From Step */
            from_step: number | null;
            /** Timeline */
            timeline: number;
            /** Why */
            why: string | null;
        };
        /**
         * TrajectoriesOut
         * @description Points of the source that was chosen last, and of the others by name.
         */
        TrajectoriesOut: {
            /** Exact */
            exact: boolean;
            /** Others */
            others: {
                [key: string]: components["schemas"]["SourceTrajectories"];
            };
            /** Pairwise */
            pairwise: {
                [key: string]: {
                    [key: string]: number | ("NaN" | "Infinity" | "-Infinity");
                }[];
            };
            /** Source */
            source: string | null;
            /** Trajectories */
            trajectories: {
                [key: string]: {
                    [key: string]: number | ("NaN" | "Infinity" | "-Infinity") | null;
                }[];
            };
            /** Watched */
            watched: number[];
        };
        /**
         * Verb
         * @description The body of a verb without settings; the id makes a retry safe.
         */
        Verb: {
            /** Id */
            id?: string | null;
        };
        /**
         * WatchIn
         * @description The new watched rows of one source. Without rows and source, all watches end.
         */
        WatchIn: {
            /** Feature Ids */
            feature_ids: number[];
            /** Source */
            source?: string | null;
        };
        /**
         * WatchOut
         * @description The watched rows.
         */
        WatchOut: {
            /** Feature Ids */
            feature_ids: number[];
            /** Others */
            others: {
                [key: string]: number[];
            };
            /** Source */
            source: string | null;
            /** Sources */
            sources: string[];
        };
        /**
         * WordOut
         * @description A word with a colour.
         */
        WordOut: {
            /**
             * Tone
             * @enum {string}
             */
            tone: "bad" | "warn" | "good" | "neutral";
            /** Word */
            word: string;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    curves: {
        parameters: {
            query: {
                /** @description Ids of the runs; a,b. */
                runs: string;
                /** @description Name of the series. */
                name: string;
                points?: number;
                x?: "step" | "epoch" | "time";
                /** @description json or safetensors */
                format?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CurvesOut"];
                    "application/octet-stream": string;
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    datasets: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DatasetListOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    dataset: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id as GET /api/v1/datasets lists it. */
                dataset_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DatasetOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    dataset_audit: {
        parameters: {
            query?: {
                offset?: number;
                limit?: number;
            };
            header?: never;
            path: {
                /** @description Id as GET /api/v1/datasets lists it. */
                dataset_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DatasetAuditOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    dataset_curriculum: {
        parameters: {
            query?: {
                epochs?: number;
            };
            header?: never;
            path: {
                /** @description Id as GET /api/v1/datasets lists it. */
                dataset_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CurriculumOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    dataset_map: {
        parameters: {
            query?: {
                /** @description Most questions. */
                points?: number;
            };
            header?: never;
            path: {
                /** @description Id as GET /api/v1/datasets lists it. */
                dataset_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DatasetMapOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    dataset_pairs: {
        parameters: {
            query?: {
                split?: ("train" | "val" | "test") | null;
                cluster?: number | null;
                offset?: number;
                limit?: number;
            };
            header?: never;
            path: {
                /** @description Id as GET /api/v1/datasets lists it. */
                dataset_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PairListOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    dataset_pair: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id as GET /api/v1/datasets lists it. */
                dataset_id: string;
                /** @description Number of a pair. */
                pair: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PairOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    health: {
        parameters: {
            query?: {
                /** @description A random text; the response proves that the server knows its tokens. */
                challenge?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Health"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    influence_results: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InfluenceListOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    influence_result: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id as GET /api/v1/influence lists it. */
                result_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InfluenceOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    influence_batch: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id as GET /api/v1/influence lists it. */
                result_id: string;
                /** @description Number of a request, or `update`. */
                batch: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InfluenceRequestOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    influence_kernel: {
        parameters: {
            query?: {
                /** @description json or safetensors */
                format?: string;
            };
            header?: never;
            path: {
                /** @description Id as GET /api/v1/influence lists it. */
                result_id: string;
                /** @description Number of a request, or `update`. */
                batch: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InfluenceKernelOut"];
                    "application/octet-stream": string;
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    influence_what_if: {
        parameters: {
            query?: {
                /** @description ID:NUMBER with commas: U-000-01:0.5,U-003-00:0. */
                advantages?: string;
            };
            header?: never;
            path: {
                /** @description Id as GET /api/v1/influence lists it. */
                result_id: string;
                /** @description Number of a request, or `update`. */
                batch: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InfluenceWhatIfOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    recipe_list: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RecipeList"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    recipe_files: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DataFileList"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    preview_recipe: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PreviewIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PreviewOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    runs: {
        parameters: {
            query?: {
                /** @description Words that must all occur. */
                q?: string;
                /** @description One of these states; a,b. */
                state?: string;
                /** @description Tags, all of them. */
                tag?: string[] | null;
                /** @description A condition: `config.lr=0.1`, also with != < <= > >=. */
                where?: string[] | null;
                /** @description A field, `config.KEY` or `summary.NAME`; with - the largest first. */
                sort?: string;
                /** @description A key, as in sort. */
                group?: string | null;
                /** @description Send only these settings and values; a,b. */
                columns?: string | null;
                offset?: number;
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunList"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    start_run: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["StartIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    run_detail: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunDetail"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_run: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DeleteIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeletedOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    label_run: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["LabelsIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    commands: {
        parameters: {
            query?: {
                limit?: number;
            };
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommandOut"][];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    submit_command: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller: page, cli or python; shown in the log. */
                "x-midstep-who"?: string | null;
            };
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CommandIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommandOut"];
                };
            };
            /** @description Accepted; it has not ended yet. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommandOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    command: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                command_id: string;
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommandOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    cancel_command: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                command_id: string;
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Verb"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommandOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    console: {
        parameters: {
            query?: {
                /** @description Text from this byte offset on. */
                after?: number | null;
                /** @description Last bytes, if `after` is left out. */
                tail?: number;
                /** @description What was kept of this stop, by its id in GET …/evidence; else what is shown now, or was kept last. */
                stop?: string | null;
            };
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ConsoleOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    back: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller: page, cli or python; shown in the log. */
                "x-midstep-who"?: string | null;
            };
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["BackIn"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StateOut"];
                };
            };
            /** @description Accepted; its effect takes longer than 2 s. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommandOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    batch: {
        parameters: {
            query?: {
                /** @description Index of the first sample. */
                first?: number;
                /** @description How many samples are shown. */
                count?: number;
                /** @description Put a small picture into the JSON. */
                inline?: boolean;
                /** @description json or safetensors */
                format?: string;
                /** @description What was kept of this stop, by its id in GET …/evidence; else what is shown now, or was kept last. */
                stop?: string | null;
            };
            header?: {
                /** @description The etag of a capture that is known. */
                "If-None-Match"?: string | null;
            };
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchOut"];
                    "application/octet-stream": string;
                };
            };
            /** @description The capture that If-None-Match names is still the newest. */
            304: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    batch_picture: {
        parameters: {
            query?: {
                /** @description Index of the first sample. */
                first?: number;
                /** @description How many samples are shown. */
                count?: number;
                /** @description The images, or the classes of their pixels as bytes. */
                layer?: "image" | "mask" | "prediction";
                /** @description Only of this capture; 409 if it is no longer held. */
                etag?: string | null;
                /** @description What was kept of this stop, by its id in GET …/evidence; else what is shown now, or was kept last. */
                stop?: string | null;
            };
            header?: {
                /** @description The etag of a capture that is known. */
                "If-None-Match"?: string | null;
            };
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "image/png": string;
                };
            };
            /** @description The capture that If-None-Match names is still the newest. */
            304: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    batch_sample: {
        parameters: {
            query: {
                /** @description Position in the batch. */
                index: number;
                /** @description json, png or safetensors */
                format?: string;
                /** @description The images, or the classes of their pixels as bytes. */
                layer?: "image" | "mask" | "prediction";
                /** @description Only of this capture; 409 if it is no longer held. */
                etag?: string | null;
                /** @description What was kept of this stop, by its id in GET …/evidence; else what is shown now, or was kept last. */
                stop?: string | null;
            };
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SampleOut"];
                    "application/octet-stream": string;
                    "image/png": string;
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    breakpoints: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BreakpointOut"][];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    add_breakpoint: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BreakpointIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BreakpointOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    remove_breakpoint: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                breakpoint_id: number;
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    switch_breakpoint: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                breakpoint_id: number;
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BreakpointPatch"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BreakpointOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    cosine_matrix: {
        parameters: {
            query?: {
                source?: "weights" | "som_targets" | "grad_delta";
                /** @description Name of the tensor; the run's default when left out. */
                tensor?: string | null;
                /** @description id, cluster (similar rows adjacent) or metric:NAME (largest first). */
                order?: string;
                /** @description Send all cells, also above 512 rows. */
                full?: boolean;
                /** @description json or safetensors */
                format?: string;
            };
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CosineMatrixOut"];
                    "application/octet-stream": string;
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    diagnosis: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StopOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    forces: {
        parameters: {
            query?: {
                /** @description Name of the tensor; the run's default when left out. */
                tensor?: string | null;
            };
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ForcesOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    pause: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller: page, cli or python; shown in the log. */
                "x-midstep-who"?: string | null;
            };
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Verb"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StateOut"];
                };
            };
            /** @description Accepted; its effect takes longer than 2 s. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommandOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    resume: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller: page, cli or python; shown in the log. */
                "x-midstep-who"?: string | null;
            };
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Verb"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StateOut"];
                };
            };
            /** @description Accepted; its effect takes longer than 2 s. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommandOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    rewind: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RewindOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    rules: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RuleOut"][];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    run_until: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller: page, cli or python; shown in the log. */
                "x-midstep-who"?: string | null;
            };
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RunUntilIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StateOut"];
                };
            };
            /** @description Accepted; its effect takes longer than 2 s. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommandOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    state: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StateOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    step: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller: page, cli or python; shown in the log. */
                "x-midstep-who"?: string | null;
            };
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["StepIn"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StateOut"];
                };
            };
            /** @description Accepted; its effect takes longer than 2 s. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommandOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    force_detail: {
        parameters: {
            query: {
                /** @description Row of the tensor. */
                feature: number;
                /** @description Name of the tensor; the run's default when left out. */
                tensor?: string | null;
                /** @description json or safetensors */
                format?: string;
            };
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ForceDetailOut"];
                    "application/octet-stream": string;
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    step_data_keys: {
        parameters: {
            query?: {
                /** @description What was kept of this stop, by its id in GET …/evidence; else what is shown now, or was kept last. */
                stop?: string | null;
            };
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StepDataKeys"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    step_data: {
        parameters: {
            query?: {
                /** @description Send large tensors too, not only a summary. */
                full?: boolean;
                /** @description json or safetensors */
                format?: string;
                /** @description What was kept of this stop, by its id in GET …/evidence; else what is shown now, or was kept last. */
                stop?: string | null;
            };
            header?: never;
            path: {
                key: string;
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StepDataOut"];
                    "application/octet-stream": string;
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    stop: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller: page, cli or python; shown in the log. */
                "x-midstep-who"?: string | null;
            };
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Verb"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StateOut"];
                };
            };
            /** @description Accepted; its effect takes longer than 2 s. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommandOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    put_subscriptions: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the stream, from its hello. */
                stream: string;
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SubscriptionsIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SubscriptionsOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    together: {
        parameters: {
            query: {
                /** @description The part of an address after /debug/, with its query; once for each. */
                ask: string[];
            };
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": string;
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    trajectories: {
        parameters: {
            query?: {
                /** @description Most points of one series. */
                points?: number;
                /** @description json or safetensors */
                format?: string;
            };
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TrajectoriesOut"];
                    "application/octet-stream": string;
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    clear_trajectories: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Verb"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TrajectoriesOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    watches: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WatchOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    replace_watches: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["WatchIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WatchOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    end_run: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EndIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EndOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    events: {
        parameters: {
            query?: {
                after_seq?: number;
                limit?: number;
            };
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventsOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    evidence: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EvidenceOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    files: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FilesOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    file_content: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The id in the list of files. */
                file_id: string;
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": string;
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    lineage: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LineageOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    media_list: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MediaListOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    media_group: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The id in the list of media. */
                group_id: string;
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MediaGroupDetail"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    media_content: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The id in the list of media. */
                group_id: string;
                /** @description One of the numbers of the group. */
                number: number;
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MediaContentOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    media_picture: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The id in the list of media. */
                group_id: string;
                /** @description One of the numbers of the group. */
                number: number;
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "image/png": string;
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    scalars: {
        parameters: {
            query?: {
                /** @description Names with commas; all when left out. */
                names?: string | null;
                points?: number;
                start?: number | null;
                stop?: number | null;
                /** @description As it was in that timeline; else the present one. */
                timeline?: number | null;
                /** @description json or safetensors */
                format?: string;
            };
            header?: never;
            path: {
                /** @description Id of the run, as GET /api/v1/runs lists it. */
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ScalarsOut"];
                    "application/octet-stream": string;
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    script_list: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ScriptList"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    start_script: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The id in the list. */
                script_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ScriptStartIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    stream: {
        parameters: {
            query?: {
                /** @description Id of the run. Left out: the only live run, or under `midstep serve` the list of runs. */
                run?: string | null;
            };
            header?: {
                /** @description `<timeline>.<seq>` of the last durable message received. */
                "last-event-id"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Server-sent events; the data of each is one message. Durable messages have the id `<timeline>.<seq>`. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": components["schemas"]["StreamMessage"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": components["schemas"]["Problem"];
                };
            };
        };
    };
    sweep_list: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SweepList"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    sweep: {
        parameters: {
            query?: {
                /** @description The value to show; best_val_loss when left out. */
                value?: string | null;
            };
            header?: never;
            path: {
                /** @description Id of the sweep, as GET /api/v1/sweeps lists it. */
                sweep_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SweepOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    stop_sweep_cell: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the sweep, as GET /api/v1/sweeps lists it. */
                sweep_id: string;
                /** @description Number of the cell. */
                job: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SweepActionOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    start_sweep: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the sweep, as GET /api/v1/sweeps lists it. */
                sweep_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SweepStartIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SweepActionOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    stop_sweep: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the sweep, as GET /api/v1/sweeps lists it. */
                sweep_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SweepActionOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_back: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller: page, cli or python; shown in the log. */
                "x-midstep-who"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["BackIn"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StateOut"];
                };
            };
            /** @description Accepted; its effect takes longer than 2 s. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommandOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_batch: {
        parameters: {
            query?: {
                /** @description Index of the first sample. */
                first?: number;
                /** @description How many samples are shown. */
                count?: number;
                /** @description Put a small picture into the JSON. */
                inline?: boolean;
                /** @description json or safetensors */
                format?: string;
                /** @description What was kept of this stop, by its id in GET …/evidence; else what is shown now, or was kept last. */
                stop?: string | null;
            };
            header?: {
                /** @description The etag of a capture that is known. */
                "If-None-Match"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchOut"];
                    "application/octet-stream": string;
                };
            };
            /** @description The capture that If-None-Match names is still the newest. */
            304: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_batch_picture: {
        parameters: {
            query?: {
                /** @description Index of the first sample. */
                first?: number;
                /** @description How many samples are shown. */
                count?: number;
                /** @description The images, or the classes of their pixels as bytes. */
                layer?: "image" | "mask" | "prediction";
                /** @description Only of this capture; 409 if it is no longer held. */
                etag?: string | null;
                /** @description What was kept of this stop, by its id in GET …/evidence; else what is shown now, or was kept last. */
                stop?: string | null;
            };
            header?: {
                /** @description The etag of a capture that is known. */
                "If-None-Match"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "image/png": string;
                };
            };
            /** @description The capture that If-None-Match names is still the newest. */
            304: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_batch_sample: {
        parameters: {
            query: {
                /** @description Position in the batch. */
                index: number;
                /** @description json, png or safetensors */
                format?: string;
                /** @description The images, or the classes of their pixels as bytes. */
                layer?: "image" | "mask" | "prediction";
                /** @description Only of this capture; 409 if it is no longer held. */
                etag?: string | null;
                /** @description What was kept of this stop, by its id in GET …/evidence; else what is shown now, or was kept last. */
                stop?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SampleOut"];
                    "application/octet-stream": string;
                    "image/png": string;
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_breakpoints: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BreakpointOut"][];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_add_breakpoint: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BreakpointIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BreakpointOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_remove_breakpoint: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                breakpoint_id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_switch_breakpoint: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                breakpoint_id: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BreakpointPatch"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BreakpointOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_cosine_matrix: {
        parameters: {
            query?: {
                source?: "weights" | "som_targets" | "grad_delta";
                /** @description Name of the tensor; the run's default when left out. */
                tensor?: string | null;
                /** @description id, cluster (similar rows adjacent) or metric:NAME (largest first). */
                order?: string;
                /** @description Send all cells, also above 512 rows. */
                full?: boolean;
                /** @description json or safetensors */
                format?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CosineMatrixOut"];
                    "application/octet-stream": string;
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_diagnosis: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StopOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_forces: {
        parameters: {
            query?: {
                /** @description Name of the tensor; the run's default when left out. */
                tensor?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ForcesOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_pause: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller: page, cli or python; shown in the log. */
                "x-midstep-who"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Verb"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StateOut"];
                };
            };
            /** @description Accepted; its effect takes longer than 2 s. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommandOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_resume: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller: page, cli or python; shown in the log. */
                "x-midstep-who"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Verb"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StateOut"];
                };
            };
            /** @description Accepted; its effect takes longer than 2 s. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommandOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_rewind: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RewindOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_rules: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RuleOut"][];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_run_until: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller: page, cli or python; shown in the log. */
                "x-midstep-who"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RunUntilIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StateOut"];
                };
            };
            /** @description Accepted; its effect takes longer than 2 s. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommandOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_state: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StateOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_step: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller: page, cli or python; shown in the log. */
                "x-midstep-who"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["StepIn"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StateOut"];
                };
            };
            /** @description Accepted; its effect takes longer than 2 s. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommandOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_force_detail: {
        parameters: {
            query: {
                /** @description Row of the tensor. */
                feature: number;
                /** @description Name of the tensor; the run's default when left out. */
                tensor?: string | null;
                /** @description json or safetensors */
                format?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ForceDetailOut"];
                    "application/octet-stream": string;
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_step_data_keys: {
        parameters: {
            query?: {
                /** @description What was kept of this stop, by its id in GET …/evidence; else what is shown now, or was kept last. */
                stop?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StepDataKeys"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_step_data: {
        parameters: {
            query?: {
                /** @description Send large tensors too, not only a summary. */
                full?: boolean;
                /** @description json or safetensors */
                format?: string;
                /** @description What was kept of this stop, by its id in GET …/evidence; else what is shown now, or was kept last. */
                stop?: string | null;
            };
            header?: never;
            path: {
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StepDataOut"];
                    "application/octet-stream": string;
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_stop: {
        parameters: {
            query?: never;
            header?: {
                /** @description The caller: page, cli or python; shown in the log. */
                "x-midstep-who"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Verb"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StateOut"];
                };
            };
            /** @description Accepted; its effect takes longer than 2 s. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommandOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_put_subscriptions: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the stream, from its hello. */
                stream: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SubscriptionsIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SubscriptionsOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_together: {
        parameters: {
            query: {
                /** @description The part of an address after /debug/, with its query; once for each. */
                ask: string[];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": string;
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_trajectories: {
        parameters: {
            query?: {
                /** @description Most points of one series. */
                points?: number;
                /** @description json or safetensors */
                format?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TrajectoriesOut"];
                    "application/octet-stream": string;
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_clear_trajectories: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Verb"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TrajectoriesOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_watches: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WatchOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
    short_replace_watches: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["WatchIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WatchOut"];
                };
            };
            /** @description 400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · 429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Problem"];
                };
            };
        };
    };
}
