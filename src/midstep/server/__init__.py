"""The guarded HTTP server: FastAPI app, routes, stream, and the built dashboard in `static/`."""
