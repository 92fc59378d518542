"""The reader of torch's memory snapshot pickles."""
