"""A browser for $BROWSER: opens an address, signs in at the tests' OpenID provider, and follows the redirects.

$SIGN_IN_AS names the user; $SIGN_IN_CA is the authority that signed the provider's certificate.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.harness.servers.identity_provider import IdentityProvider

if __name__ == "__main__":
    with IdentityProvider("", Path(os.environ["SIGN_IN_CA"])).browser() as browser:
        browser.sign_in(sys.argv[1], os.environ["SIGN_IN_AS"])
