"""The web page in a browser, and the streams that it opens."""
