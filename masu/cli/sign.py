"""`masu sign`: vouches for a package with a key of one's own."""

from pathlib import Path

import click

from masu.cli.output import note
from masu.specs.signature import SIGNATURE


@click.command(short_help="Sign a package, or make a key to sign with.")
@click.argument("package", required=False, type=click.Path(path_type=Path))
@click.option(
    "--key", type=click.Path(path_type=Path), metavar="PRIVATE.pem",
    help="Sign PACKAGE with this ed25519 private key.",
)  # fmt: skip
@click.option(
    "--new-key", "fresh", type=click.Path(path_type=Path), metavar="FILE",
    help="Write a new private key to FILE and its public key beside it, and sign nothing.",
)  # fmt: skip
def command(package: Path | None, key: Path | None, fresh: Path | None) -> None:
    """Write signature.json into PACKAGE, an ed25519 signature over its manifest, its report and
    whatever else the manifest does not vouch for, such as its fingerprints.

    The manifest vouches for the weights, so every byte is compared with it first. Whoever has the
    public key asks `masu check PACKAGE --key PUBLIC.pem`. Needs masu[sign].

    Exit status: 0 signed, 2 it cannot be.
    """
    from masu.signing import new_key, sign

    if fresh is not None:
        if package is not None or key is not None:
            raise click.UsageError("--new-key makes a key and signs nothing")
        click.echo(new_key(fresh))
        note(f"keep {fresh} to yourself: whoever has it can sign in your name")
    elif package is None or key is None:
        raise click.UsageError("expected PACKAGE and --key PRIVATE.pem, or --new-key FILE")
    else:
        signature = sign(package, key)
        note(f"signed {', '.join(signature.files)} with the key {signature.public_key}")
        click.echo(package / SIGNATURE)
