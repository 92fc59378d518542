"""Files of other tools are named, with what to do."""

import gzip

import pytest
from chrome import load_bytes

from cudalens.errors import TraceFormatError

PPROF = b"\x0a\x04\x08\x01\x10\x02\x0a\x04\x08\x03\x10\x04\x12\x04\x0a\x00\x10\x05"


@pytest.mark.parametrize(
    ("content", "found", "todo"),
    [
        (PPROF, "a profile of pprof", "record a run with torch.profiler"),
        (
            gzip.compress(PPROF, mtime=0),
            "a profile of pprof in the compressed data",
            "record a run with torch.profiler",
        ),
        (
            b'{"$schema":"https://www.speedscope.app/file-format-schema.json","profiles":[]}',
            "a profile for speedscope",
            "load the recording that it was made from",
        ),
        (b"main;forward;gemm 120\nmain;backward 80\n", "collapsed stacks", "load the recording"),
        (b"<module> (a.py:1);f (<frozen x>:3) 7\n", "collapsed stacks", "load the recording"),  # py-spy
        (b"<stdin>(7):_<module> 1\n<stdin>(7):_<module>;a.py(3): f 3\n", "collapsed stacks", "load the recording"),
        (b'{"ph": "X", "ts": 1}\n{"ph": "X", "ts": 2}\n', "JSON lines", "jq -s . FILE"),
        (b'"Name","Calls","TotalDurationNs"\n"k",1,2\n', "a table of rocprof (CSV)", "--output-format rocpd"),
        (b'"Index","KernelName","gpu-id"\n0,"k",1\n', "a table of rocprof (CSV)", "--output-format rocpd"),
        (b'"Kind","Agent_Id","Queue_Id"\n"KERNEL_DISPATCH",1,2\n', "a table of rocprofv3", "--output-format rocpd"),
        (
            b"Time (%),Total Time (ns),Instances,Name\n50.0,3,1,k\n",
            "a table of nsys stats",
            "nsys export --type sqlite",
        ),
        (b"Start (ns),Duration (ns),CorrId,Name\n1,3,1,k\n", "a table of nsys stats", "nsys export --type sqlite"),
        (b"step,loss\n1,0.5\n", "a table (CSV)", "load the recording"),
        (
            b'<html>\n<head><meta charset="utf-8" /><title>GPU Memory Timeline HTML</title></head>',
            "a picture of torch's memory timeline",
            'export_memory_timeline("FILE.json")',
        ),
        (
            b'<?xml version="1.0"?>\n<com.nvidia.viper.nvvp.session>',
            "a session of NVIDIA's Visual Profiler",
            "nvprof -o FILE",
        ),
        (b"tlZ\x04" + bytes(60), "a capture of Tracy", "tracy-csvexport"),
        (b"tr\xfdP" + bytes(60), "a capture of Tracy", "tracy-csvexport"),
        (b"PERFILE2" + bytes(60), "a recording of Linux perf", "Convert it"),
    ],
)
def test_what_it_is_and_what_to_do(tmp_path, content, found, todo):
    with pytest.raises(TraceFormatError) as raised:
        load_bytes(tmp_path, content, "given")
    assert found in str(raised.value)
    assert todo in str(raised.value)


@pytest.mark.parametrize("content", [b"\x0a", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"\x0a\x02\x07\x07"])
def test_a_line_feed_is_no_protocol_buffer(tmp_path, content):
    with pytest.raises(TraceFormatError):
        load_bytes(tmp_path, content)
