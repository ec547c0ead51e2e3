"""A model file as a service over HTTP: `crfqn serve`. Labels by numpy alone, as `crfqn.Tagger` does.

`labelling` makes answers of requests, `application` is the HTTP around it, `workers` the processes. starlette and
uvicorn are in the extra `crfqn[serve]`, and are imported when a service starts.
"""
