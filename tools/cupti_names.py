"""Write cudalens/traces/sqlite/cupti_names.json from CUPTI's headers: CUDA API names by CUPTI callback id.

    python tools/cupti_names.py /usr/local/cuda/extras/CUPTI/include

CUPTI only appends to its enumerations, so the newest headers name the ids of all versions.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

TARGET = Path(__file__).parents[1] / "cudalens" / "traces" / "sqlite" / "cupti_names.json"


def names(header: Path, kind: str) -> list[str]:
    """Names by id, without the CUDA version that they end in; "" where an id is not taken."""
    found = re.findall(rf"CUPTI_{kind}_TRACE_CBID_(\w+?)(?:_v\d{{4,}})?\s*=\s*(\d+)", header.read_text())
    by_id = {int(number): name for name, number in found if name not in ("INVALID", "SIZE", "FORCE_INT")}
    return [by_id.get(i, "") for i in range(max(by_id) + 1)]


def main(folder: Path) -> None:
    """Write the table from the headers in `folder`."""
    table = {
        "runtime": names(folder / "cupti_runtime_cbid.h", "RUNTIME"),
        "driver": names(folder / "cupti_driver_cbid.h", "DRIVER"),
    }
    TARGET.write_text(json.dumps(table, indent=0) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
