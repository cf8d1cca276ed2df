"""From the words of `docker run` to the body of `POST /v1/runs`. Begin with `request.build_request`."""
