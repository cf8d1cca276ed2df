#!/bin/sh
# Build the web page into the package; the first argument is the Python that has Kajitori installed. Without npm, or where
# it reaches no registry, everything but the web page works: the server says so at its address.
set -eu
web=$(dirname "$0")
if ! command -v npm >/dev/null; then
	echo "The web page is not built: npm is missing. Debian's package is called npm; then: make web" >&2
	exit
fi
if ! [ "$web/node_modules/.package-lock.json" -nt "$web/package-lock.json" ]; then
	if ! npm ci --prefix "$web" $NPM; then
		echo "The web page is not built: npm could not install what it needs. Try again with: make web" >&2
		exit
	fi
fi
"$1" -c 'import json; from kajitori.api.app import openapi_document as made; print(json.dumps(made()))' >"$web/openapi.json"
npm run --prefix "$web" --silent types -- --silent
npm run --prefix "$web" --silent build -- --logLevel error
