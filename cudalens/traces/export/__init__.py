"""Writers of other tools' file formats."""
