"""`crfqn serve`: a service over HTTP that labels with a model file, by numpy alone as `crfqn.Tagger`.

`labelling` answers requests, `application` is the HTTP interface, `workers` runs the processes. starlette and uvicorn
come with the extra `crfqn[serve]` and are imported when a service starts.
"""
