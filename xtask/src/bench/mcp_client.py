"""The official MCP client, as a baseline: prints the shortest duration of a tool call.

Arguments: the number of calls, the tool, its arguments as JSON, and the command of a server.
"""

import asyncio
import json
import sys
import time

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main():
    calls, tool, arguments, program, *rest = sys.argv[1:]
    arguments = json.loads(arguments)
    server = StdioServerParameters(command=program, args=rest)
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        best = float("inf")
        for _ in range(int(calls)):
            begun = time.perf_counter()
            result = await session.call_tool(tool, arguments)
            best = min(best, time.perf_counter() - begun)
            failed = getattr(result, "isError", getattr(result, "is_error", False))
            if failed:
                sys.exit(str(result))
        print("best_ms", best * 1e3)


asyncio.run(main())
