"""JAX's process-wide settings. They belong to a program, so only the command line makes them."""

import os


def configure_jax() -> None:
    """Compiled programs are kept between runs, floats stay as declared, XLA's chatter is off."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # read once, when XLA is loaded
    import jax

    from masu.converter.sources.cache_dir import default_cache_dir

    jax.config.update("jax_enable_x64", False)
    jax.config.update("jax_logging_level", "ERROR")
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(default_cache_dir() / "jax"))
        # By default a program that took less than a second to make is made again by every run.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
