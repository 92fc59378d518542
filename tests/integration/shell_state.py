"""What of a shell an extension may change."""

from types import SimpleNamespace

from IPython.core.interactiveshell import InteractiveShell


def state_of(shell: InteractiveShell) -> SimpleNamespace:
    """Everything that an extension may have changed in `shell`."""
    manager = shell.input_transformer_manager
    return SimpleNamespace(
        magics={kind: dict(functions) for kind, functions in shell.magics_manager.magics.items()},
        registry=dict(shell.magics_manager.registry),
        inputs=[list(manager.cleanup_transforms), list(manager.line_transforms), list(manager.token_transformers)],
        post=list(shell.input_transformers_post),
        asts=list(shell.ast_transformers),
        events={name: list(callbacks) for name, callbacks in shell.events.callbacks.items()},
        hooks=dict(shell.hooks),
        completers=list(shell.Completer.custom_matchers),
        handlers=shell.custom_exceptions,
    )
