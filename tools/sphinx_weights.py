"""Sphinx extension: without the weights of chapter 11, show its notebooks with their stored outputs."""

from sphinx.util import logging
from weights import NEED_WEIGHTS, missing

logger = logging.getLogger(__name__)


def leave_out(app, config):
    if missing():
        config.nb_execution_excludepatterns = [*config.nb_execution_excludepatterns, *NEED_WEIGHTS]
        logger.info("Without the weights of chapter 11: its notebooks are not run, their stored outputs are shown.")


def setup(app):
    app.connect("config-inited", leave_out)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
