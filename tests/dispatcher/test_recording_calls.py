"""Calls about saves that workers host, over a real port."""

from contextlib import asynccontextmanager

import pytest

from penstock.errors import DatasetError, Refused, UnknownDataset
from penstock.protocol.names import LONGEST_NAME
from penstock.protocol.recording import StartRecordingRequest
from penstock.wire.connection import connect, listening
from penstock.wire.dispatcher import DispatcherClient
from penstock.wire.recordings import recordings_handlers
from penstock_dispatcher.recording_calls import RecordingCalls
from tests.dispatcher.running_dispatcher import FAST, ticking


@asynccontextmanager
async def answering(work_dir):
    async with ticking(FAST) as dispatcher:
        handlers = recordings_handlers(RecordingCalls(dispatcher, work_dir))
        async with (
            listening(handlers, host="127.0.0.1", port=0, drain=0.2) as port,
            connect(f"127.0.0.1:{port}") as channel,
        ):
            yield DispatcherClient(channel)


async def test_a_dispatcher_without_a_folder_refuses_to_start_a_save():
    async with answering(None) as client:
        with pytest.raises(
            Refused, match=r"no work_dir .*fault tolerant mode.*start it with a work_dir"
        ):
            await client.start_recording(StartRecordingRequest("s", "/p", "d"))


async def test_what_the_core_refuses_is_an_error():
    async with answering("folder") as client:
        with pytest.raises(UnknownDataset, match="nothing is registered under the dataset_id 'd'"):
            await client.start_recording(StartRecordingRequest("s", "/p", "d"))
        for ask in (client.find_recording, client.cancel_recording):
            with pytest.raises(DatasetError, match="knows no save 's'"):
                await ask("s")


async def test_long_names_are_refused():
    long = "x" * (LONGEST_NAME + 1)
    async with answering("folder") as client:
        for ask in (client.find_recording, client.cancel_recording):
            with pytest.raises(Refused, match="save_id takes"):
                await ask(long)
        with pytest.raises(Refused, match="path takes"):
            await client.start_recording(StartRecordingRequest("s", long, "d"))
